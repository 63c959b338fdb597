package web

import (
	_ "embed"
	"slices"
)

// colors holds the custom properties of the shared colors, in both color schemes.
//
//go:embed colors.css
var colors []byte

// Colored returns a style sheet that begins with the shared colors. One sheet needs one request.
func Colored(sheet []byte) []byte { return slices.Concat(colors, sheet) }
