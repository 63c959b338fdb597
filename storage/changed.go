package storage

import (
	"fmt"
	"strings"
)

// ChangedError names the settings that another person changed since the editor saw them. The change
// is refused, so the editor overwrites nothing unseen.
type ChangedError struct{ Fields []string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed meanwhile", strings.Join(e.Fields, ", "))
}

// deref returns the text, or "" for nil.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
