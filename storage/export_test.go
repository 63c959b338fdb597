package storage

// BacklogQuery is the query of Backlog.
const BacklogQuery = backlog
