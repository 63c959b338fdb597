package action

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxLabel = 100 // characters

// CheckLabel returns the fault of a name or a label for people to read, nil for none. The text of the error continues a
// sentence that begins with the field's name.
func CheckLabel(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("is missing or empty")
	case utf8.RuneCountInString(text) > maxLabel:
		return fmt.Errorf("must have at most %d characters", maxLabel)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, Hidden):
		return errors.New("must not have control or invisible characters")
	}
	return nil
}

// Hidden reports whether people cannot see a character.
func Hidden(r rune) bool { return !unicode.IsPrint(r) }
