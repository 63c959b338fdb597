package failure_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// kinds holds the kind of each error, the same in every server. Those that the REST API has words for are in
// api/server_test.go.
var kinds = []struct {
	err  error
	want failure.Kind
}{
	{errors.New("inner words"), failure.Internal},
	{&web.Panic{}, failure.Internal},
	{&pgconn.PgError{Code: "42P01"}, failure.Internal},
	{&pgconn.PgError{Code: "23505"}, failure.Internal},
	{webhook.ErrURLSyntax, failure.Internal}, // shown at a field, never an answer of its own

	{runs.ErrPaymentNotFound, failure.NotFound},
	{&pgconn.PgError{Code: "22021"}, failure.NotFound},

	{checkout.ErrPaymentUndecided, failure.Conflict},
	{checkout.ErrPaymentExists, failure.Conflict},
	{merchant.ErrEmailInUse, failure.Conflict},
	{merchant.ErrLastOwner, failure.Conflict},
	{&pg.ChangedError{}, failure.Conflict},

	{people.ErrColor, failure.Invalid},
	{people.ErrLogo, failure.Invalid},
	{people.ErrLogoLarge, failure.Invalid},

	{limit.ErrBusy, failure.Busy},
	{&http.MaxBytesError{}, failure.TooLarge},

	{pg.ErrWrongMasterKey, failure.Unavailable},
	{&pgconn.ConnectError{}, failure.Unavailable},
	{&pgconn.PgError{Code: "57P01"}, failure.Unavailable},
	{&pgconn.PgError{Code: "55P03"}, failure.Unavailable},
	{&pgconn.PgError{Code: "40001"}, failure.Unavailable},
	{puddle.ErrClosedPool, failure.Unavailable},
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, c := range kinds {
		require.Equal(t, c.want, failure.KindOf(c.err), "%T %v", c.err, c.err)
		require.Equal(t, c.want, failure.KindOf(fmt.Errorf("read: %w", c.err)), "%T %v", c.err, c.err)
	}
	for _, k := range failure.Kinds {
		require.Equal(t, k, failure.KindOf(fmt.Errorf("read: %w", k)))
	}
	require.Equal(t, failure.Unavailable, failure.KindOf(errors.Join(context.DeadlineExceeded, errors.New("and more"))))
	require.Equal(t, failure.TooLarge, failure.KindOf(fmt.Errorf("%w: %w", failure.TooLarge, checkout.ErrNotFound)), "a Kind says more")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&limit.TooOftenError{Wait: 1100 * time.Millisecond}, "2"},
		{&limit.TooOftenError{}, "1"},
		{fmt.Errorf("enter: %w", &limit.TooOftenError{Wait: time.Minute}), "60"},
		{failure.RateLimited, "5"},
		{limit.ErrBusy, "5"},
		{context.DeadlineExceeded, "5"},
		{checkout.ErrNotPending, ""},
		{errors.New("inner words"), ""},
	} {
		got, ok := failure.RetryAfter(failure.KindOf(c.err), c.err, 5*time.Second)
		require.Equal(t, c.want, got, "%v", c.err)
		require.Equal(t, c.want != "", ok)
	}
}
