package activities

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// drawn returns a picture with a clear half and a red half.
func drawn(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := width / 2; x < width; x++ {
			m.Set(x, y, color.NRGBA{R: 200, A: 255})
		}
	}
	return m
}

func encoded(t *testing.T, format string, m image.Image) []byte {
	var b bytes.Buffer
	switch format {
	case "jpeg":
		require.NoError(t, jpeg.Encode(&b, m, nil))
	case "gif":
		require.NoError(t, gif.Encode(&b, m, nil))
	default:
		require.NoError(t, png.Encode(&b, m))
	}
	return b.Bytes()
}

// webPicture is a WebP of 1 × 1 pixel.
const webPicture = "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA="

// claiming returns the header of a PNG that claims a size, with no pixels.
func claiming(width, height uint32) []byte {
	b := bytes.NewBufferString("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d")
	head := append([]byte("IHDR"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)...)
	head = append(head, 8, 2, 0, 0, 0)
	b.Write(binary.BigEndian.AppendUint32(head, crc32.ChecksumIEEE(head)))
	return b.Bytes()
}

// withComment returns a JPEG with a comment, where cameras write the place too.
func withComment(picture []byte, comment string) []byte {
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(len(comment)+2))
	return append(append(append(bytes.Clone(picture[:2]), segment...), comment...), picture[2:]...)
}

func TestSmallPicture_IsSmallAndOnWhite(t *testing.T) {
	t.Parallel()
	web := must.Get(base64.StdEncoding.DecodeString(webPicture))(t)
	for name, c := range map[string]struct {
		body          []byte
		width, height int
	}{
		"a large PNG":        {encoded(t, "png", drawn(1200, 600)), 192, 96},
		"a tall JPEG":        {encoded(t, "jpeg", drawn(300, 900)), 64, 192},
		"a GIF":              {encoded(t, "gif", drawn(400, 400)), 192, 192},
		"a WebP":             {web, 1, 1},
		"a small one stays":  {encoded(t, "png", drawn(10, 20)), 10, 20},
		"a line":             {encoded(t, "png", drawn(16_384, 1)), 192, 1},
		"a JPEG with a note": {withComment(encoded(t, "jpeg", drawn(500, 500)), "52.5200 N 13.4050 E"), 192, 192},
	} {
		f, failure := smallPicture(c.body)
		require.Empty(t, failure, name)
		require.Equal(t, []int{c.width, c.height}, []int{f.Width, f.Height}, name)
		got, format, err := image.Decode(bytes.NewReader(f.Content))
		require.NoError(t, err, name)
		require.Equal(t, "image/"+format, f.ContentType, name)
		require.Equal(t, image.Rect(0, 0, c.width, c.height), got.Bounds(), name)
		require.NotContains(t, string(f.Content), "52.5200", name)
		if name == "a large PNG" {
			r, g, b, a := got.At(10, 10).RGBA()
			require.Equal(t, []uint32{0xffff, 0xffff, 0xffff, 0xffff}, []uint32{r, g, b, a}, "what was clear is white")
		}
	}
}

func TestSmallPicture_RefusesWhatIsNoPictureOrTooLarge(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "jpeg", drawn(400, 400))
	for name, c := range map[string]struct {
		body []byte
		want pictureFailure
	}{
		"an SVG":             {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), failureType},
		"a page":             {[]byte("<!doctype html><title>Sign in</title>"), failureType},
		"nothing":            {nil, failureType},
		"truncated pixels":   {whole[:len(whole)/2], failureBroken},
		"truncated header":   {whole[:20], failureType},
		"a claim":            {claiming(10, 10), failureBroken},
		"too many pixels":    {claiming(5000, 3001), failurePixels},
		"15 megapixels":      {claiming(5000, 3000), failureBroken},
		"too many scans":     {append(bytes.Clone(whole), bytes.Repeat(startOfScan, maxPictureScans)...), failureScans},
		"a bomb":             {claiming(1<<31-1, 1<<31-1), failureType},
		"a side too long":    {claiming(16_385, 1), failurePixels},
		"a side too high":    {claiming(1, 16_385), failurePixels},
		"a BMP, another one": {append([]byte("BM"), make([]byte, 60)...), failureType},
	} {
		_, failure := smallPicture(c.body)
		require.Equal(t, c.want, failure, name)
	}
}

// TestPictures_GetEveryAnswer gets pictures from real servers through the real guard, all at once.
func TestPictures_GetEveryAnswer(t *testing.T) {
	t.Parallel()
	const token = "?token=tok-secret-canary"
	good := encoded(t, "png", drawn(20, 20))
	elsewhere := listen(t, "127.0.0.1:0")
	answers := func(status int, body []byte) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+elsewhere.Addr().String()+"/")
			w.WriteHeader(status)
			_, _ = w.Write(body) // the client may hang up
		})
	}
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 64<<10)) // until the client hangs up
		}
	})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(good[:10])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for name, c := range map[string]struct {
		guard *AddressGuard
		mode  checkout.Mode
		url   string
		want  pictureFailure
	}{
		"a picture":           {url: answers(200, good)},
		"too large":           {url: answers(200, make([]byte, maxPictureBody+1)), want: failureBody},
		"as large as allowed": {url: answers(200, make([]byte, maxPictureBody))},
		"endless":             {url: endless, want: failureBody},
		"slow":                {url: slow, want: pictureFailure(webhook.ErrorTimeout)},
		"a redirect":          {url: answers(302, good), want: failureStatus},
		"not found":           {url: answers(404, good), want: failureStatus},
		"partial":             {url: answers(206, good), want: failureStatus},
		"broken server":       {url: answers(503, good), want: failureAway},
		"busy server":         {url: answers(429, good), want: failureAway},
		"nobody listens":      {url: "http://" + deaf, want: pictureFailure(webhook.ErrorConnect)},
		"a private address":   {guard: NewAddressGuard(false), url: answers(200, good), want: pictureFailure(webhook.ErrorBlockedAddress)},
		"metadata":            {url: "http://169.254.169.254/", want: pictureFailure(webhook.ErrorBlockedAddress)},
		"live, loopback":      {mode: checkout.ModeLive, url: "https://127.0.0.1/", want: pictureFailure(webhook.ErrorBlockedAddress)},
		"live, plain HTTP":    {mode: checkout.ModeLive, url: "http://8.8.8.8/", want: pictureFailure(webhook.ErrorBlockedAddress)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.guard == nil {
				c.guard = NewAddressGuard(true)
			}
			if c.mode == "" {
				c.mode = checkout.ModeTest
			}
			began := time.Now()
			body, failure := newReceivers(c.guard).get(t.Context(), c.mode, c.url+"/picture.png"+token)
			require.Equal(t, c.want, failure)
			require.Equal(t, c.want == "", body != nil)
			require.NotContains(t, string(failure), "canary")
			require.Less(t, time.Since(began), time.Minute, "it ends")
		})
	}
	t.Cleanup(func() { require.Zero(t, elsewhere.connections.Load(), "no redirect was followed") })
}

// A try that finds no place in its lane is put off.
func TestPictures_AMerchantsPicturesLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	p := NewPictures(nil, NewAddressGuard(true))
	owner := checkout.Owner{MerchantID: "mer_a", Mode: checkout.ModeTest}
	for range picturesOfMerchant {
		require.Zero(t, p.lanes.enter(t.Context(), visit{lane: "mer_a test", merchant: "mer_a"}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.FetchPicture(ctx, owner.Ref("pic_x"))
	require.ErrorContains(t, err, "the merchant's other pictures come first")
	require.False(t, strings.Contains(err.Error(), "pic_x"))
}
