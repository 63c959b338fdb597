package storage

// BacklogQuery is the query of Backlog.
const BacklogQuery = backlog

// EventFeedQuery is the query of EventFeed.
const EventFeedQuery = eventFeed
