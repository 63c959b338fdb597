package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
)

var testKey = "sk_test_" + strings.Repeat("0123456789abcdef", 4)

// listen runs checkout listen without settings of the service.
func listen(t *testing.T, key string, args ...string) (string, error) {
	t.Helper()
	out, notes, err := operator{t: t, environment: []string{"CHECKOUT_API_KEY=" + key}}.run(append([]string{"listen"}, args...)...)
	return out + notes, err
}

func TestListen_SaysWhatIsWrongWithTheCall(t *testing.T) {
	t.Parallel()
	const to = "--forward-to=http://127.0.0.1:3000"
	for _, c := range []struct {
		key  string
		args []string
		want string
	}{
		{"sk_live_" + testKey[8:], []string{to}, "CHECKOUT_API_KEY must be a test key"},
		{testKey, []string{to, "--api", "http://api.example"}, "--api (CHECKOUT_API_URL) must be https://"},
		{testKey, []string{to, "--events", "payout.send"}, `--events has an unknown event type "payout.send"; known are [checkout.completed`},
		{testKey, []string{to, "--since", "monday"}, `"--since" flag: must be a duration such as 10m`},
		{testKey, []string{to, "--api-key=" + testKey}, "unknown flag: --api-key; checkout listen --help explains"},
		{testKey, []string{to, testKey}, "too many arguments"},
	} {
		out, err := listen(t, c.key, c.args...)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, out+err.Error(), testKey[8:24])
		require.NotContains(t, err.Error(), "\n", "one line")
		require.Equal(t, 2, app.ExitStatus(err))
	}
}

func TestListen_ReportsAFaultOfItsSettings(t *testing.T) {
	t.Parallel()
	o := operator{t: t, environment: []string{"CHECKOUT_API_KEY=" + testKey, "CHECKOUT_API_KEY_FILE=/secret"}}
	_, _, err := o.run("listen", "--forward-to=http://127.0.0.1:3000")
	require.EqualError(t, err, "listen: CHECKOUT_API_KEY_FILE and CHECKOUT_API_KEY must not both be set; checkout listen --help explains")
	require.Equal(t, 2, app.ExitStatus(err))
}
