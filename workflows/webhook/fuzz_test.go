package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// fuzzSecret has the form of a real secret.
const fuzzSecret = "whsec_7d3f9922eae9233437456923b3c738dcb32a0ea98869df200b5f8b0033a7f349" // #nosec G101 -- signs nothing

// FuzzVerify: Verify accepts a signature exactly when the header has the documented form, an HMAC
// computed here matches, and the time is near. Otherwise it returns one of its three errors.
func FuzzVerify(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	body := []byte(`{"id":"evt_1"}`)
	good := webhook.Sign([]byte(fuzzSecret), now, body)
	_, v1, _ := strings.Cut(good, "v1=")
	for _, header := range []string{
		good, webhook.Sign([]byte("other"), now, body, []byte(fuzzSecret)), "t=1800000300,v1=" + v1, "t=1799999699,v1=" + v1, "t=1800000000,v0=" + v1,
		"v1=" + v1 + ",t=1800000000", good + ",", good + ",v1=00", good + ",v2=x", "t=1,t=2,v1=" + v1, "t=-1,v1=" + v1, "t=01800000000,v1=" + v1, strings.ToUpper(good), "", ",", "=",
		"t=9223372036854775807,v1=" + v1, "t=99999999999999999999,v1=" + v1,
	} {
		f.Add(header, body, int64(0))
	}
	f.Add(webhook.Sign([]byte(fuzzSecret), now, nil), []byte{}, int64(300))
	f.Add(good, body, int64(301))
	f.Fuzz(func(t *testing.T, header string, body []byte, late int64) {
		at := now.Add(time.Duration(late%1_000_000) * time.Second)
		err := webhook.Verify(fuzzSecret, header, body, at)
		if err != nil && !errors.Is(err, webhook.ErrSignatureHeader) && !errors.Is(err, webhook.ErrSignatureMismatch) && !errors.Is(err, webhook.ErrSignatureTime) {
			t.Fatalf("%q: %v", header, err)
		}
		if want := accepted(header, body, at); (err == nil) != want {
			t.Fatalf("%q of %q at %d: %v, but a receiver says %v", header, body, at.Unix(), err, want)
		}
		signed := webhook.Sign([]byte(fuzzSecret), at, body)
		if err := webhook.Verify(fuzzSecret, signed, body, at); err != nil {
			t.Fatalf("our own %q: %v", signed, err)
		}
		if err := webhook.Verify(fuzzSecret, signed, append(body[:len(body):len(body)], 0), at); !errors.Is(err, webhook.ErrSignatureMismatch) {
			t.Fatalf("another body: %v", err)
		}
	})
}

// accepted is a receiver that shares no code with the service.
func accepted(header string, body []byte, at time.Time) bool {
	if strings.ContainsAny(header, " \t\r\n") {
		return false
	}
	var times, signatures []string
	for _, part := range strings.Split(header, ",") {
		switch i := strings.IndexByte(part, '='); {
		case i < 0:
			return false
		case part[:i] == "t":
			times = append(times, part[i+1:])
		case part[:i] == "v1":
			if raw, err := hex.DecodeString(part[i+1:]); err != nil || hex.EncodeToString(raw) != part[i+1:] || len(raw) != 32 {
				return false
			}
			signatures = append(signatures, part[i+1:])
		}
	}
	if len(times) != 1 {
		return false
	}
	seconds, err := strconv.ParseUint(times[0], 10, 63)
	if err != nil || strconv.FormatUint(seconds, 10) != times[0] {
		return false
	}
	mac := hmac.New(sha256.New, []byte(fuzzSecret))
	mac.Write([]byte(times[0] + "." + string(body)))
	want, found := hex.EncodeToString(mac.Sum(nil)), false
	for _, signature := range signatures {
		found = found || signature == want
	}
	age := at.Unix() - int64(seconds)
	return found && age <= 300 && age >= -300
}

// FuzzNormalURL: the normal form of an address is a fixed point, and has the host that limits are counted by.
func FuzzNormalURL(f *testing.F) {
	for _, address := range []string{"HTTPS://BÜCHER.example.:443/a?#b", "http://[0:0::1]:80", "http://Ӏ:8", "https://a_b.example//%2f?"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if _, err := webhook.ParseURL(address, checkout.ModeTest); err != nil {
			return
		}
		normal := webhook.NormalURL(address)
		if again := webhook.NormalURL(normal); again != normal || webhook.HostOf(normal) != webhook.HostOf(address) {
			t.Fatalf("%q: %q, then %q", address, normal, again)
		}
	})
}
