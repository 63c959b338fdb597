package workflows_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// TestPictureFetch_EndsWithAPictureOrWithout fetches from real servers, through the real guard, into PostgreSQL.
func TestPictureFetch_EndsWithAPictureOrWithout(t *testing.T) {
	t.Parallel()
	var good bytes.Buffer
	require.NoError(t, png.Encode(&good, image.NewGray(image.Rect(0, 0, 400, 300))))
	for name, c := range map[string]struct {
		statuses []int // of the answers in turn; the last one repeats
		body     []byte
		private  bool // nobody allowed loopback
		tries    int
		status   string
		failure  string
	}{
		"a picture":            {[]int{200}, good.Bytes(), false, 1, "ready", ""},
		"a server that mends":  {[]int{503, 429, 200}, good.Bytes(), false, 3, "ready", ""},
		"a server that is ill": {[]int{503}, good.Bytes(), false, 3, "failed", "the server is away"},
		"no picture there":     {[]int{404}, good.Bytes(), false, 1, "failed", "refused by the server"},
		"something else":       {[]int{200}, []byte("<svg/>"), false, 1, "failed", "not a JPEG, PNG, GIF or WebP picture"},
		"a private address":    {[]int{200}, good.Bytes(), true, 1, "failed", "blocked_address"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				n := int(asked.Add(1))
				rw.WriteHeader(c.statuses[min(n, len(c.statuses))-1])
				_, _ = rw.Write(c.body) // the client may hang up
			}))
			t.Cleanup(server.Close)
			ref := w.picture(server.URL + "/beans.png?token=tok-secret-canary")
			env := w.env(ref.ID, time.Now())
			env.RegisterActivity(activities.NewPictures(w.Store.Pictures, activities.NewAddressGuard(!c.private)))
			env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
				var in any
				require.NoError(t, args.Get(&in))
				require.NotContains(t, fmt.Sprint(in), "canary")
			})
			env.ExecuteWorkflow(contract.TypePictureFetch, ref)
			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError(), "a page without a picture is no failure")

			got := w.text(`SELECT concat_ws('|', status, failure, tries, width, height) FROM picture`)
			want := fmt.Sprintf("%s|%s|%d", c.status, c.failure, c.tries)
			if c.status == "ready" {
				want = fmt.Sprintf("ready|%d|192|144", c.tries)
			}
			require.Equal(t, want, got)
			if c.private {
				require.Zero(t, asked.Load())
			}
		})
	}
}

// picture creates a session whose line item has a picture at the address.
func (w *world) picture(address string) checkout.Ref {
	terms := w.terms(nil)
	terms.LineItems = []checkout.LineItem{{Name: "Beans", Quantity: 1, UnitAmount: terms.Amount, ImageURL: &address}}
	return w.owner().Ref(w.create(terms).Pictures[0].ID)
}

// TestPictureFetch_ATryThatKilledItsWorkerIsNotRepeatedForever: the row counts the tries of all workers.
func TestPictureFetch_ATryThatKilledItsWorkerIsNotRepeatedForever(t *testing.T) {
	w := newWorld(t)
	ref := w.picture("http://127.0.0.1:1/")
	for range 3 {
		_, _, err := w.Pictures.BeginPicture(t.Context(), ref)
		require.NoError(t, err)
	}
	for _, want := range []string{"failed|the worker died|4", "failed|the worker died|4"} { // a second run finds nothing to do
		env := w.env(ref.ID, time.Now())
		env.RegisterActivity(activities.NewPictures(w.Store.Pictures, activities.NewAddressGuard(true)))
		env.ExecuteWorkflow(contract.TypePictureFetch, ref)
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, want, w.text(`SELECT concat_ws('|', status, failure, tries) FROM picture`))
	}
}
