package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// list is the network's list of reports, two a page.
func (b *liveBooks) list(_ context.Context, cursor string, since time.Time) ([]books.AcquirerEvent, bool, error) {
	b.asked = append(b.asked, cursor)
	if b.away != nil {
		return nil, false, b.away
	}
	begun := cursor == ""
	var got []books.AcquirerEvent
	for _, e := range b.events {
		if begun && !e.CreatedAt.Before(since) {
			got = append(got, e)
		}
		begun = begun || e.ID == cursor
	}
	return got[:min(2, len(got))], len(got) > 2, nil
}

// reported adds reports of these ages to the network's list.
func (b *liveBooks) reported(ages ...time.Duration) {
	for _, age := range ages {
		b.events = append(b.events, books.AcquirerEvent{
			ID: fmt.Sprintf("evt_%d", len(b.events)+1), Mode: checkout.ModeLive, Type: "payment_intent.succeeded",
			CreatedAt: time.Now().Add(-age).UTC(),
		})
	}
}

func (b *liveBooks) readReports() int {
	b.asked = nil
	return must.Get(run[int](b, b.ReadReports))(b.t)
}

// The cursor stays a quarter of an hour behind, because a report may appear in the list late.
func TestReadReports_GoesOnWhereItWas(t *testing.T) {
	b := newBooks(t)
	b.reported(3*24*time.Hour, 5*time.Hour, 4*time.Hour, 3*time.Hour, 10*time.Minute, time.Minute)
	require.Equal(t, 5, b.readReports(), "the first reading begins two days ago")
	require.Equal(t, []string{"", "evt_3", "evt_5"}, b.asked)
	require.Zero(t, b.readReports(), "each report is noted once")
	require.Equal(t, []string{"evt_4"}, b.asked)

	late := b.events[4]
	late.ID = "evt_late"
	b.events = append(b.events[:4], append([]books.AcquirerEvent{late}, b.events[4:]...)...)
	require.Equal(t, 1, b.readReports())
}

// The network forgets reports, and cursors, after 30 days.
func TestReadReports_AfterALongOutage(t *testing.T) {
	b := newBooks(t)
	require.NoError(t, b.Store.Books.MoveAcquirerCursor(t.Context(), checkout.ModeLive, storage.AcquirerCursor{
		EventID: "evt_forgotten", CreatedAt: time.Now().Add(-31 * 24 * time.Hour),
	}))
	b.reported(28 * 24 * time.Hour)
	require.Equal(t, 1, b.readReports())
	require.Equal(t, []string{""}, b.asked)
	require.NoError(t, b.Store.Books.MoveAcquirerCursor(t.Context(), checkout.ModeLive, storage.AcquirerCursor{
		EventID: "evt_forgotten", CreatedAt: time.Now().Add(-29 * 24 * time.Hour),
	}))
	require.Zero(t, b.readReports())
	require.Equal(t, []string{"evt_1"}, b.asked, "the cursor never goes back")
}

func TestReadReports_KeepsItsPlaceWhenTheNetworkIsAway(t *testing.T) {
	b := newBooks(t)
	b.reported(2*time.Hour, time.Hour)
	b.away = errors.New("the network is away")
	require.Error(t, must.Err(run[int](b, b.ReadReports)))
	b.away = nil
	require.Equal(t, 2, b.readReports())
}

// PostgreSQL cannot hold their ids.
func TestReadReports_PassesReportsThatCannotBeRead(t *testing.T) {
	b := newBooks(t)
	b.reported(5*time.Hour, 4*time.Hour, 3*time.Hour, 2*time.Hour)
	for i := range b.events[:3] {
		b.events[i].ID, b.events[i].Unread = b.events[i].ID+"\x00", true
	}
	require.Equal(t, 1, b.readReports(), "a whole page of them hides nothing")
	require.Equal(t, []string{"", "evt_2\x00"}, b.asked)
	require.Zero(t, b.readReports())
	require.Equal(t, []string{"evt_4"}, b.asked, "the stored place is a report that can be read")
}
