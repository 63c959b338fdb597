package s3store

import (
	"errors"

	"go.temporal.io/server/common/archiver"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
)

// URIScheme is the scheme of archives in S3.
const URIScheme = "s3"

var errLeftOut = errors.New("archives in S3 are left out of the local stack's build of Temporal")

func NewHistoryArchiver(
	persistence.ExecutionManager, log.Logger, metrics.Handler, *config.S3Archiver,
) (archiver.HistoryArchiver, error) {
	return nil, errLeftOut
}

func NewVisibilityArchiver(log.Logger, metrics.Handler, *config.S3Archiver) (archiver.VisibilityArchiver, error) {
	return nil, errLeftOut
}
