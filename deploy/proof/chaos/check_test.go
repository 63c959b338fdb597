package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const databaseURL = "DATABASE_URL=postgres://u:hidden@127.0.0.1:1/db"

func TestParseCheck_ReadsTheScheduleOfTheStack(t *testing.T) {
	t.Parallel()
	o, err := parseCheck(nil, []string{databaseURL, "CHECKOUT_TEST_RETRY_SCHEDULE=2s,2s,3s,4s,5s"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, o.sources.Schedule[3])
}

func TestCheck_WithoutPostgresSaysSoAndNoPassword(t *testing.T) {
	t.Parallel()
	o, err := parseCheck(nil, []string{databaseURL}, io.Discard)
	require.NoError(t, err)
	err = check(t.Context(), o, io.Discard, io.Discard)
	require.ErrorContains(t, err, "no answer from PostgreSQL")
	require.NotContains(t, err.Error(), "hidden")
}
