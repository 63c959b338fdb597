package storage

import "github.com/jackc/pgx/v5/pgxpool"

// BacklogQuery is the query of Backlog.
const BacklogQuery = backlog

// EventFeedQuery is the query of EventFeed.
const EventFeedQuery = eventFeed

// DeleteOldSessionsQuery is the query of DeleteOldSessions.
const DeleteOldSessionsQuery = deleteOldSessions

// DeleteOldQuery is the query of DeleteOld.
func DeleteOldQuery(rows OldRows) string { return rows.deletion() }

// UselessCardsQuery selects the payments whose card nobody needs.
const UselessCardsQuery = uselessCards

// Pool returns the connections of s.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }
