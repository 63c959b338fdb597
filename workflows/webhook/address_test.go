package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalURL_IsOneForAllSpellingsOfAnAddress(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"https://shop.example:443/h": {
			"https://shop.example/h", "HTTPS://Shop.EXAMPLE/h", "https://shop.example:443/h", "https://shop.example./h",
			"https://shop.example/h#x", "https://shop.example/h#", "https://shop.example/h?", "https://shop.example/h?#?x=1",
			"https://ｓｈｏｐ.example/h", "https://shop。example/h",
		},
		"http://shop.example:80/": {"http://shop.example", "http://shop.example/", "http://shop.example:80?", "HTTP://SHOP.example#x"},
		"https://xn--bcher-kva.example:443/h": {
			"https://bücher.example/h", "https://BÜCHER.example/h", "https://XN--bcher-KVA.example/h", "https://bu\u0308cher.example/h",
			"https://b%C3%BCcher.example/h",
		},
		"https://[2606:4700:4700::1111]:443/h": {
			"https://[2606:4700:4700::1111]/h", "https://[2606:4700:4700:0:0:0:0:1111]/h", "https://[2606:4700:4700::1111]:443/h",
		},
		"https://shop.example:443/%C3%BC?a=1": {"https://shop.example/ü?a=1", "https://shop.example/%C3%BC?a=1#b"},
	} {
		for _, spelling := range spellings {
			require.Equal(t, want, NormalURL(spelling), spelling)
		}
	}
}

// Servers tell these apart, so they are different addresses.
func TestNormalURL_KeepsWhatAServerSees(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, address := range []string{
		"https://shop.example/h", "http://shop.example/h", "https://shop.example:8443/h", "http://shop.example:443/h",
		"https://www.shop.example/h", "https://shop.example/H", "https://shop.example/h/", "https://shop.example//h",
		"https://shop.example/./h", "https://shop.example/%68", "https://shop.example/h%2F", "https://shop.example/h%2f",
		"https://shop.example/h?a=1&b=2", "https://shop.example/h?b=2&a=1", "https://shop.example/h?a=1&b=2&",
		"https://shop.example/h?A=1&b=2", "https://shop.example/h%3F", "https://shop.example/", "https://8.8.8.8/h",
		"https://[::ffff:8.8.8.8]/h", "https://xn--bcher-kva.example/h", "https://bucher.example/h", "https://strasse.example/h",
		"https://straße.example/h",
	} {
		normal := NormalURL(address)
		require.Empty(t, seen[normal], "%s is another address", address)
		seen[normal] = address
		require.Equal(t, normal, NormalURL(normal))
	}
}

func TestNormalURL_OfWhatIsNoAddressIsItself(t *testing.T) {
	t.Parallel()
	require.Equal(t, "https://[::1", NormalURL("https://[::1"))
	require.Equal(t, "https://A_b.example:443/", NormalURL("https://A_b.example"), "no host that an attempt could go to")
	require.Empty(t, HostOf("https://[::1"))
	require.Empty(t, HostOf("/h"))
}

func TestHostOf_IsOneForAllSpellingsOfAHost(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://bücher.example/a", "https://BÜCHER.example:8443", "https://xn--bcher-kva.example./"} {
		require.Equal(t, "xn--bcher-kva.example", HostOf(address), address)
	}
	require.Equal(t, "::1", HostOf("http://[0:0:0:0:0:0:0:1]:3000/"))
}
