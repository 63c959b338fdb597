package connector

import (
	"context"
	"errors"

	"go.temporal.io/server/common/archiver"
	"go.temporal.io/server/common/config"
)

// ErrBucketNotFound never happens here.
var ErrBucketNotFound = errors.New("bucket not found")

// Precondition says whether a query's result counts.
type Precondition func(subject any) bool

// Client is a client of Google's storage.
type Client interface {
	Upload(ctx context.Context, uri archiver.URI, name string, file []byte) error
	Get(ctx context.Context, uri archiver.URI, name string) ([]byte, error)
	Query(ctx context.Context, uri archiver.URI, prefix string) ([]string, error)
	QueryWithFilters(
		ctx context.Context, uri archiver.URI, prefix string, pageSize, offset int, filters []Precondition,
	) ([]string, bool, int, error)
	Exist(ctx context.Context, uri archiver.URI, name string) (bool, error)
}

func NewClient(context.Context, *config.GstorageArchiver) (Client, error) {
	return nil, errors.New("archives in Google's storage are left out of the local stack's build of Temporal")
}
