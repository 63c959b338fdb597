package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRotateSecret_ShowsTheNewSecretOnce(t *testing.T) {
	f := newFront(t)
	key := f.merchant.testKey
	id, first := f.newEndpoint(key)
	path := "/v1/webhooks/" + id
	want := f.do("GET", path, key, "").json
	for body, hours := range map[string]float64{"": 24, "{}": 24, `{"overlap_hours":null}`: 24, `{"overlap_hours":1}`: 1, `{"overlap_hours":72}`: 72} {
		got := f.answers(200, "POST", path+"/rotate_secret", key, body)
		secret := got.json["secret"].(string)
		require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
		require.NotEqual(t, first, secret)
		until := timeIn(t, got.json["previous_secret_expires_at"])
		require.InDelta(t, hours, time.Until(until).Hours(), 0.1, body)
		read := f.do("GET", path, key, "")
		require.Equal(t, got.json["previous_secret_expires_at"], read.json["previous_secret_expires_at"])
		require.NotContains(t, read.body, secret)
		require.NotContains(t, f.log.String(), secret)
		first = secret
	}
	got := f.do("POST", path+"/rotate_secret", key, `{"overlap_hours":0}`)
	delete(got.json, "secret")
	require.Equal(t, want, got.json, "without an overlap nothing else changes")

	got = f.answers(400, "POST", path+"/rotate_secret", key, `{"overlap_hours":73}`)
	require.Equal(t, "overlap_hours must be a whole number from 0 to 72", got.json["message"])
	got = f.do("POST", path+"/rotate_secret", key, `{"overlap":1,"secret":"whsec_x","overlap_hours":99}`)
	require.Equal(t, []string{"overlap", "secret", "overlap_hours"}, got.params())
	require.Equal(t, 415, f.do("POST", path+"/rotate_secret", key, "a=b", "Content-Type", "text/plain").status)
}
