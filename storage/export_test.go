package storage

import "github.com/jackc/pgx/v5/pgxpool"

// BacklogQuery is the query of Backlog.
const BacklogQuery = backlog

// EventFeedQuery is the query of EventFeed.
const EventFeedQuery = eventFeed

// Pool returns the connections of s.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }
