package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// reencoding is the body that an encoder writes for a parsed body. name is the encoder.
type reencoding struct {
	name string
	body string
}

// reencodings returns the bodies that a receiver signs by mistake when it parses the body and
// encodes it again. It returns none when body is not JSON, and leaves out bodies that stay the
// same.
func reencodings(body string) []reencoding {
	asJavaScript, err := reformat(body, javaScriptNumber)
	if err != nil {
		return nil
	}
	compact, _ := reformat(body, pythonNumber) // the body parsed above, so it cannot fail
	spaced, _ := reformat(body, pythonNumber, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	sorted, err := jsontext.AppendFormat(
		nil, []byte(asJavaScript), jsontext.ReorderRawObjects(true), jsontext.EscapeForHTML(true),
	)
	if err != nil {
		return nil
	}
	var changed []reencoding
	for _, r := range []reencoding{
		{"JSON.stringify of JavaScript", asJavaScript},
		{"json.dumps of Python", ascii(spaced)},
		{"json_encode of PHP", ascii(strings.ReplaceAll(compact, "/", `\/`))},
		{"an encoder that sorts keys, such as Go's of a map,", string(sorted)},
	} {
		if r.body != body {
			changed = append(changed, r)
		}
	}
	return changed
}

// reformat encodes a JSON value again with number's numbers and the white space of opts.
func reformat(body string, number func(string) string, opts ...jsontext.Options) (string, error) {
	var out bytes.Buffer
	d, e := jsontext.NewDecoder(strings.NewReader(body)), jsontext.NewEncoder(&out, opts...)
	for {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return strings.TrimSuffix(out.String(), "\n"), nil
		case err != nil:
			return "", fmt.Errorf("reformat: %w", err)
		case token.Kind() == '0':
			err = e.WriteValue(jsontext.Value(number(token.String())))
		default:
			err = e.WriteToken(token)
		}
		if err != nil {
			return "", fmt.Errorf("reformat: %w", err)
		}
	}
}

// javaScriptNumber writes 10.00 as 10 and 10.50 as 10.5.
func javaScriptNumber(token string) string {
	f, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return token
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// pythonNumber writes 10.00 as 10.0, because Python keeps a float a float.
func pythonNumber(token string) string {
	short := javaScriptNumber(token)
	if strings.Contains(token, ".") && !strings.Contains(short, ".") {
		return short + ".0"
	}
	return short
}

// ascii escapes characters beyond ASCII. JSON has such characters only in strings.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
