package checkout

// Picture is our copy of the picture of a line item.
type Picture struct {
	ID     string // pic_…; a new fetch of the same URL has a new one
	URL    string // as the merchant sent it; may hold a token, so no log has it
	Width  int    // in pixels; 0 before it was fetched
	Height int
}

// MaxPictureSide is the longest side of a stored picture, in pixels.
const MaxPictureSide = 192
