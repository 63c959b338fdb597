package activities

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // image.Decode reads it
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // image.Decode reads it
	"golang.org/x/sync/semaphore"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Limits of a picture.
const (
	pictureTimeout   = 10 * time.Second // from the DNS lookup to the last byte
	maxPictureBody   = 5 << 20
	maxPicturePixels = 15_000_000
	maxPictureScans  = 64     // of a progressive JPEG, which has about 10; each goes through all pixels again
	maxPictureSide   = 16_384 // scaling a line of pixels would take more memory than decoding it
	maxPictureTries  = 3
	pictureRetry     = 2 * time.Second // doubled after each try
)

// How many pictures a worker process works on at once. A body takes 5 MB. A JPEG of 15 megapixels may take 360 MB
// while it is decoded, so one is decoded at a time. Each merchant and mode gets picturesOfMerchant of them.
const (
	picturePlaces      = 8
	picturesOfMerchant = 4
	pictureDecoders    = 1
)

// Pictures is the activity that fetches the pictures of line items.
type Pictures struct {
	Store *storage.Pictures

	receivers receivers
	lanes     *lanes
	places    *semaphore.Weighted
	decoders  *semaphore.Weighted
}

// NewPictures returns the activity. guard checks every address before it connects to it.
func NewPictures(pictures *storage.Pictures, guard *AddressGuard) *Pictures {
	return &Pictures{
		Store: pictures, receivers: newReceivers(guard), lanes: newLanes(picturesOfMerchant, picturesOfMerchant, Slots),
		places: semaphore.NewWeighted(picturePlaces), decoders: semaphore.NewWeighted(pictureDecoders),
	}
}

// pictureFailure is why a try brought no picture. It never has a part of the URL or of the answer.
type pictureFailure string

// Failures beside the kinds of failed attempts of webhooks.
const (
	failureType   pictureFailure = "not a JPEG, PNG, GIF or WebP picture"
	failureBody   pictureFailure = "larger than 5 MB"
	failurePixels pictureFailure = "more than 15 megapixels, or a side of more than 16,384"
	failureScans  pictureFailure = "a JPEG of more than 64 scans"
	failureBroken pictureFailure = "cannot be decoded"
	failureTries  pictureFailure = "the worker died"
	failureStatus pictureFailure = "refused by the server" // a redirect, too
	failureAway   pictureFailure = "the server is away"    // 408, 425, 429 and 5xx
)

// passing are the failures after which another try may bring the picture.
var passing = []pictureFailure{
	failureAway, pictureFailure(webhook.ErrorTimeout), pictureFailure(webhook.ErrorDNS), pictureFailure(webhook.ErrorTLS),
	pictureFailure(webhook.ErrorConnect), pictureFailure(webhook.ErrorHTTP), pictureFailure(webhook.ErrorInternal),
}

// FetchPicture makes one try to fetch a pending picture. It stores a small copy of it without metadata, or why there is
// none. It returns an error only when there is another try. A picture that is gone, or not pending, is no error.
func (p *Pictures) FetchPicture(ctx context.Context, ref checkout.Ref) error {
	visit := visit{lane: ref.MerchantID + " " + string(ref.Mode), merchant: ref.MerchantID}
	if busy := p.lanes.enter(ctx, visit); busy.wait > 0 {
		return pictureAway("the merchant's other pictures come first", busy.wait)
	}
	var shown outcome
	defer func() { p.lanes.leave(visit, shown) }()
	if err := p.places.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.places.Release(1)
	began := time.Now()
	shown = outcome{effect: showsCapacity, began: began}

	address, try, err := p.Store.BeginPicture(ctx, ref)
	if errors.Is(err, checkout.ErrNotFound) {
		return nil
	}
	if err != nil {
		return asFinal(ctx, err, "")
	}
	failure := failureTries // a try that never came back may have killed its worker
	var file storage.PictureFile
	if try <= maxPictureTries {
		file, failure = p.picture(ctx, ref.Mode, address)
	}
	logger(ctx).InfoContext(ctx, "picture", "picture_id", ref.ID, "try", try, "failure", string(failure),
		"duration_ms", time.Since(began).Milliseconds())
	if try < maxPictureTries && slices.Contains(passing, failure) {
		return pictureAway(string(failure), pictureRetry<<(try-1))
	}
	file.Failure = string(failure)
	return asFinal(ctx, p.Store.FinishPicture(ctx, ref, file), "")
}

func pictureAway(why string, wait time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(why, contract.ErrTypePictureAway, temporal.ApplicationErrorOptions{
		NextRetryDelay: wait, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// picture fetches a picture and makes the small copy. The failure is "" for a picture.
func (p *Pictures) picture(
	ctx context.Context, mode checkout.Mode, address string,
) (storage.PictureFile, pictureFailure) {
	body, failure := p.receivers.get(ctx, mode, address)
	if failure != "" {
		return storage.PictureFile{}, failure
	}
	if p.decoders.Acquire(ctx, 1) != nil {
		return storage.PictureFile{}, pictureFailure(webhook.ErrorInternal)
	}
	defer p.decoders.Release(1)
	return smallPicture(body)
}

// get returns the body of a picture. As with webhooks the guard checks each address that it dials, and a redirect
// is not followed.
func (r receivers) get(ctx context.Context, mode checkout.Mode, address string) ([]byte, pictureFailure) {
	transport, ok := r.transport(mode, address)
	if !ok {
		return nil, pictureFailure(webhook.ErrorBlockedAddress)
	}
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, failureBroken // cannot happen: the URL was checked
	}
	req.Header.Set("Accept", "image/jpeg, image/png, image/gif, image/webp")
	req.Header.Set("User-Agent", webhook.UserAgent)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, pictureFailure(classify(err, true))
	}
	defer func() { _ = res.Body.Close() }() // the body was read, or is not wanted
	switch {
	case res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooEarly,
		res.StatusCode == http.StatusTooManyRequests, res.StatusCode > 499:
		return nil, failureAway
	case res.StatusCode != http.StatusOK:
		return nil, failureStatus
	case res.ContentLength > maxPictureBody:
		return nil, failureBody
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPictureBody+1))
	switch {
	case err != nil:
		return nil, pictureFailure(classify(err, true))
	case len(body) > maxPictureBody:
		return nil, failureBody
	}
	return body, ""
}

// pictureFormats are the formats that are read. SVG is a document that may have scripts.
var pictureFormats = []string{"jpeg", "png", "gif", "webp"}

// startOfScan begins each scan of a JPEG. The pixels of a scan have no such bytes.
var startOfScan = []byte{0xff, 0xda}

// smallPicture returns the copy of a picture that the page shows: at most checkout.MaxPictureSide on each side, on
// white, without metadata. Of a moving picture it is the first frame.
func smallPicture(body []byte) (f storage.PictureFile, failure pictureFailure) {
	size, format, err := image.DecodeConfig(bytes.NewReader(body))
	switch {
	case err != nil || !slices.Contains(pictureFormats, format) || size.Width < 1 || size.Height < 1:
		return f, failureType
	case format == "jpeg" && bytes.Count(body, startOfScan) > maxPictureScans:
		return f, failureScans
	case size.Width > maxPictureSide, size.Height > maxPictureSide, size.Width*size.Height > maxPicturePixels:
		return f, failurePixels
	}
	decoded, _, err := image.Decode(bytes.NewReader(body))
	if err != nil || decoded.Bounds().Empty() {
		return f, failureBroken
	}
	const most = checkout.MaxPictureSide
	f.Width, f.Height = people.FitPicture(decoded.Bounds().Dx(), decoded.Bounds().Dy(), most, most)
	small := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	draw.Draw(small, small.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.BiLinear.Scale(small, small.Bounds(), decoded, decoded.Bounds(), draw.Over, nil)
	if f.ContentType, f.Content, err = encodePicture(small); err != nil {
		return f, failureBroken
	}
	return f, ""
}

// encodePicture returns a picture as JPEG, or as PNG when that is smaller, as of a drawing.
func encodePicture(small image.Image) (contentType string, content []byte, err error) {
	var asJPEG, asPNG bytes.Buffer
	if err := jpeg.Encode(&asJPEG, small, &jpeg.Options{Quality: 85}); err != nil {
		return "", nil, err
	}
	if err := png.Encode(&asPNG, small); err != nil {
		return "", nil, err
	}
	if asPNG.Len() < asJPEG.Len() {
		return "image/png", asPNG.Bytes(), nil
	}
	return "image/jpeg", asJPEG.Bytes(), nil
}
