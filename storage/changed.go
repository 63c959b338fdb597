package storage

import (
	"fmt"
	"strings"
)

// ChangedError tells which settings somebody else has changed since they were
// seen: nothing is written over what nobody looked at.
type ChangedError struct{ Fields []string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed meanwhile", strings.Join(e.Fields, ", "))
}

// deref is what text points to, "" for nil.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
