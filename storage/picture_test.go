package storage_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// showing returns a session with a line item for each URL.
func showing(n storage.NewSession, urls ...string) storage.NewSession {
	n.ID, n.OrderID = checkout.NewID(checkout.PrefixSession), nil
	n.LineItems = []checkout.LineItem{{Name: "Beans", Quantity: 1, UnitAmount: n.Amount}}
	for _, url := range urls {
		n.LineItems = append(n.LineItems, checkout.LineItem{Name: "Bag", Quantity: 1, ImageURL: &url})
	}
	return n
}

var beans = storage.PictureFile{ContentType: "image/png", Content: []byte("beans"), Width: 20, Height: 10}

func (f fixture) fetched(t *testing.T, owner checkout.Owner, p checkout.Picture, file storage.PictureFile) {
	url, try, err := f.Pictures.BeginPicture(t.Context(), owner.Ref(p.ID))
	require.NoError(t, err)
	require.Equal(t, p.URL, url)
	require.Equal(t, 1, try)
	require.NoError(t, f.Pictures.FinishPicture(t.Context(), owner.Ref(p.ID), file))
}

func TestCreateSession_FetchesAPictureOnceADay(t *testing.T) {
	f := newFixture(t)
	a, b := "https://shop.example/a.png?token=1", "https://shop.example/b.png"
	first := f.create(t, showing(f.newSession(), b, a, a))
	require.Len(t, first.Pictures, 2, "each URL once")
	require.Empty(t, f.create(t, showing(f.newSession(), a, b)).Pictures, "the fetch of the first session goes on")
	require.Empty(t, f.create(t, f.newSession()).Pictures)
	for _, p := range first.Pictures {
		if p.URL == a {
			f.fetched(t, first.Owner, p, beans)
		} else {
			f.fetched(t, first.Owner, p, storage.PictureFile{Failure: "timeout"})
		}
	}
	require.Empty(t, f.create(t, showing(f.newSession(), a, b)).Pictures)

	f.Exec(t, `UPDATE picture SET fetched_at = fetched_at - interval '2 minutes'`)
	again := f.create(t, showing(f.newSession(), a, b)).Pictures
	require.Len(t, again, 1, "the one that failed")
	require.Equal(t, b, again[0].URL)
	f.Exec(t, `UPDATE picture SET fetched_at = fetched_at - interval '1 day'`)
	again = f.create(t, showing(f.newSession(), a, b)).Pictures
	require.Len(t, again, 1, "the old one; the other is being fetched")
	require.Equal(t, a, again[0].URL)
	for _, p := range first.Pictures {
		require.NotEqual(t, p.ID, again[0].ID, "a new run has a new id")
	}
	_, _, err := f.Pictures.BeginPicture(t.Context(), first.Owner.Ref(first.Pictures[0].ID))
	require.ErrorIs(t, err, checkout.ErrNotFound, "a run of before finds nothing")
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM picture`))
}

func TestCreateSession_LeavesFewPicturesToFetch(t *testing.T) {
	f := newFixture(t)
	urls := make([]string, 50)
	for i := range 4 {
		for j := range urls {
			urls[j] = fmt.Sprintf("https://shop.example/%d/%d.png", i, j)
		}
		require.Len(t, f.create(t, showing(f.newSession(), urls...)).Pictures, 50)
	}
	first := f.create(t, showing(f.newSession(), "https://shop.example/more.png"))
	require.Empty(t, first.Pictures, "200 are pending")
	require.Len(t, f.create(t, showing(f.liveSession(), "https://shop.example/more.png")).Pictures, 1, "the other mode has its own")
	f.Exec(t, `UPDATE picture SET status = 'failed', failure = 'x', fetched_at = clock_timestamp() WHERE url LIKE '%/0/%'`)
	require.Len(t, f.create(t, showing(f.newSession(), "https://shop.example/more.png")).Pictures, 1)
	f.Exec(t, `UPDATE picture SET fetched_at = now() - interval '2 minutes' WHERE status = 'failed'`)
	f.Exec(t, `INSERT INTO picture (id, merchant_id, mode, url, url_digest)
		SELECT 'pic_' || i, merchant_id, mode, i, sha256(i::text::bytea) FROM generate_series(1, 50) i, (SELECT * FROM picture WHERE mode = 'test' LIMIT 1) p`)
	require.Empty(t, f.create(t, showing(f.newSession(), "https://shop.example/0/0.png")).Pictures, "nor is one fetched again")
}

// TestCreateSession_APictureHoldsUpNoOtherCreate: a create that waits for Temporal has locked no picture.
func TestCreateSession_APictureHoldsUpNoOtherCreate(t *testing.T) {
	f := newFixture(t)
	const url = "https://shop.example/logo.png"
	waits, goOn := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := f.Sessions.CreateSession(context.Background(), showing(f.newSession(), url), func(context.Context, checkout.Session) error {
			close(waits)
			<-goOn
			return nil
		})
		done <- err
	}()
	<-waits
	f.create(t, showing(f.newSession(), url))
	close(goOn)
	require.NoError(t, <-done)
}

func TestPicture_BelongsToItsMerchantModeAndSession(t *testing.T) {
	f := newFixture(t)
	const url = "https://shop.example/a.png"
	test := f.create(t, showing(f.newSession(), url))
	live := f.create(t, showing(f.liveSession(), url))
	require.Len(t, live.Pictures, 1, "another mode has its own")
	p := test.Pictures[0]
	for _, owner := range []checkout.Owner{live.Owner, {MerchantID: "mer_other", Mode: checkout.ModeTest}} {
		_, _, err := f.Pictures.BeginPicture(t.Context(), owner.Ref(p.ID))
		require.ErrorIs(t, err, checkout.ErrNotFound)
		require.NoError(t, f.Pictures.FinishPicture(t.Context(), owner.Ref(p.ID), beans))
	}
	shown := func(s checkout.Session) []checkout.Picture {
		got, _, err := f.Sessions.CustomerSession(t.Context(), s.ID)
		require.NoError(t, err)
		return got.Pictures
	}
	require.Empty(t, shown(test), "it is not ready")
	require.ErrorIs(t, must.Err(f.Sessions.CustomerPicture(t.Context(), test.ID, p.ID)), checkout.ErrNotFound)
	f.fetched(t, test.Owner, p, beans)
	require.NoError(t, f.Pictures.FinishPicture(t.Context(), test.Owner.Ref(p.ID), storage.PictureFile{Failure: "late"}), "changes nothing")
	require.Equal(t, []checkout.Picture{{ID: p.ID, URL: url, Width: 20, Height: 10}}, shown(test))
	require.Empty(t, shown(live))
	require.Equal(t, beans, must.Get(f.Sessions.CustomerPicture(t.Context(), test.ID, p.ID))(t))
	for _, other := range []checkout.Session{live, f.create(t, showing(f.newSession(), "https://shop.example/b.png")), f.create(t, f.newSession())} {
		require.ErrorIs(t, must.Err(f.Sessions.CustomerPicture(t.Context(), other.ID, p.ID)), checkout.ErrNotFound)
	}
}

func TestOverdue_HasPicturesWhoseFetchIsLate(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, showing(f.newSession(), "https://shop.example/a.png", "https://shop.example/b.png"))
	f.fetched(t, s.Owner, s.Pictures[0], beans)
	late := must.Get(f.Installation.Overdue(t.Context(), 0, "", 10))(t)
	require.Empty(t, late)
	f.Exec(t, `UPDATE picture SET created_at = created_at - interval '6 minutes'`)
	late = must.Get(f.Installation.Overdue(t.Context(), 0, "", 10))(t)
	require.Len(t, late, 1)
	require.Equal(t, s.Owner.Ref(s.Pictures[1].ID), late[0].Ref)
}

func TestDeleteOldPictures_LeavesThoseInUse(t *testing.T) {
	f := newFixture(t)
	const old, used = "https://shop.example/old.png", "https://shop.example/used.png"
	f.create(t, showing(f.newSession(), old, used))
	f.Exec(t, `UPDATE picture SET last_used_at = last_used_at - interval '31 days'`)
	require.Empty(t, f.create(t, showing(f.newSession(), used)).Pictures)
	for _, want := range []int{1, 0} {
		require.Equal(t, want, must.Get(f.Installation.DeleteOld(t.Context(), storage.OldPictures, 30*24*time.Hour, 10))(t))
	}
	require.Equal(t, used, f.query(t, `SELECT url FROM picture`))
}

// TestCreateSession_SessionsAtTheSameTimeFetchAPictureOnce creates sessions with the same pictures in different orders,
// some of them stale.
func TestCreateSession_SessionsAtTheSameTimeFetchAPictureOnce(t *testing.T) {
	f := newFixture(t)
	var urls []string
	for i := range 20 {
		urls = append(urls, fmt.Sprintf("https://shop.example/%d.png", i))
	}
	s := f.create(t, showing(f.newSession(), urls[:10]...))
	for _, p := range s.Pictures {
		f.fetched(t, s.Owner, p, beans)
	}
	f.Exec(t, `UPDATE picture SET fetched_at = fetched_at - interval '2 days'`)
	var (
		creates sync.WaitGroup
		mu      sync.Mutex
		started = map[string]int{}
	)
	for i := range 16 {
		creates.Go(func() {
			turned := append(append([]string(nil), urls[i:]...), urls[:i]...)
			got, err := f.Sessions.CreateSession(t.Context(), showing(f.newSession(), turned...), func(context.Context, checkout.Session) error { return nil })
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range got.Pictures {
				started[p.URL]++
			}
		})
	}
	creates.Wait()
	require.Len(t, started, 20)
	for url, n := range started {
		require.Equal(t, 1, n, url)
	}
}
