package checkout

import (
	"errors"
	"regexp"
	"strings"
	"time"
)

// timeLayout is RFC 3339 in UTC with milliseconds, always three digits.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t in the format of every answer and event: RFC 3339, UTC, milliseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// FormatOptionalTime is FormatTime for an optional time; nil stays nil.
func FormatOptionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := FormatTime(*t)
	return &s
}

// ErrTime is the error of ParseTime.
var ErrTime = errors.New("not a time of RFC 3339")

// rfc3339 is the grammar of RFC 3339, section 5.6. time.Parse takes a comma before the fraction and
// an offset of 24 hours, and refuses lower case and a leap second.
var rfc3339 = regexp.MustCompile(
	`^(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:)(\d\d)((?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d))$`,
)

// ParseTime reads a time of RFC 3339. The leap second at the end of a day in UTC is the first second of the
// next day, because the service's clocks know no leap seconds. It returns ErrTime.
func ParseTime(text string) (time.Time, error) {
	parts := rfc3339.FindStringSubmatch(text)
	if parts == nil {
		return time.Time{}, ErrTime
	}
	leap := parts[2] == "60"
	if leap {
		parts[2] = "59"
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(parts[1]+parts[2]+parts[3]))
	if err != nil {
		return time.Time{}, ErrTime
	}
	if !leap {
		return t, nil
	}
	t = t.Add(time.Second)
	if utc := t.UTC(); utc.Truncate(24*time.Hour) != utc.Truncate(time.Second) {
		return time.Time{}, ErrTime
	}
	return t, nil
}
