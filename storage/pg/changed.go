package pg

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
