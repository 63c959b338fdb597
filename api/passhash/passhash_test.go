package passhash

import (
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/stretchr/testify/require"
)

func TestWhich_ComparesAllThatShareASaltForTheWorkOfOne(t *testing.T) {
	t.Parallel()
	hash := func(password, like string) string {
		h, err := Hash(t.Context(), password, like)
		require.NoError(t, err)
		return h
	}
	a := hash("password a", "")
	b, alone := hash("password b", a), hash("password c", "")
	require.True(t, Alike(a, b))
	require.False(t, Alike(a, alone))
	same, err := argon2id.ComparePasswordAndHash("password b", b)
	require.NoError(t, err)
	require.True(t, same, "what the build of before reads")

	for _, c := range []struct {
		password string
		hashes   []string
		want     int
	}{
		{"password a", []string{a, b}, 0},
		{"password b", []string{a, b}, 1},
		{"password b", []string{b}, 0},
		{"password c", []string{a, b, alone}, -1}, // another salt would be more work
		{"password c", []string{alone, a}, 0},
		{"wrong", []string{a, b}, -1},
		{"password a", nil, -1},
	} {
		got, err := Which(t.Context(), c.password, c.hashes...)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.password)
	}
}
