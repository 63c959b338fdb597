package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/api/failure"
)

// Limits of a request's body. Source: api/decisions/requests.md, "strict JSON".
const (
	maxBody         = 64 << 10 // bytes
	maxEvidenceBody = 8 << 20  // bytes of files in base64, and of texts
	maxDepth        = 8        // the outermost object is 1
)

// member is a name and its value in a JSON object. The value is as the client sent it.
type member struct {
	name  string
	value jsontext.Value
}

// readObject reads a request's body, which must be one JSON object with known members.
func readObject(r *http.Request, known ...string) (fields, error) { return readFields(r, false, known) }

// readOptional is readObject for a body whose fields are all optional. It accepts an empty body
// too, because some clients cannot send an empty JSON object, and others cannot send an empty body.
func readOptional(r *http.Request, known ...string) (fields, error) {
	return readFields(r, true, known)
}

func readFields(r *http.Request, mayBeEmpty bool, known []string) (fields, error) {
	body, err := readBody(r)
	switch {
	case err != nil:
		return fields{}, err
	case mayBeEmpty && len(body) == 0:
		return newFields(nil), nil
	}
	if err := checkMediaType(r.Header); err != nil {
		return fields{}, err
	}
	members, err := decodeObject(body)
	return newFields(members, known...), err
}

// readNothing checks that a request has no body. It accepts an empty JSON object.
func readNothing(r *http.Request) error {
	f, err := readOptional(r)
	if err != nil {
		return err
	}
	return f.err()
}

// readBody does not read a body whose Content-Length is too large.
func readBody(r *http.Request) ([]byte, error) {
	most := int64(maxBody)
	if ex, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		most = cmp.Or(ex.maxBody, most)
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if int64(len(body)) > most {
		return nil, tooLarge(most)
	}
	if err != nil {
		return nil, invalid("The body could not be read completely.")
	}
	return body, nil
}

// checkMediaType accepts only application/json, with charset=utf-8 or without. It refuses
// compression, because a small compressed body can become a very large one.
func checkMediaType(h http.Header) error {
	for _, encoding := range h.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return refuse(failure.UnsupportedMedia, codeMediaType, "The body must not be compressed.")
		}
	}
	types := h.Values("Content-Type")
	if len(types) == 1 {
		mediaType, params, err := mime.ParseMediaType(types[0])
		charset, has := params["charset"]
		if has {
			delete(params, "charset")
		}
		if err == nil && mediaType == "application/json" && len(params) == 0 &&
			(!has || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return refuse(failure.UnsupportedMedia, codeMediaType, "The body must be sent with Content-Type: application/json.")
}

// decodeObject accepts one UTF-8 JSON object with nothing after it, without duplicate names and at
// most maxDepth deep. The same rules apply to the nested values.
func decodeObject(body []byte) ([]member, error) {
	switch {
	case len(body) == 0:
		return nil, invalid("The body must be a JSON object, but it is empty.")
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return nil, invalid("The body must not begin with a byte order mark.")
	case !utf8.Valid(body):
		return nil, invalid("The body must be UTF-8.")
	}
	if err := checkSyntax(body); err != nil {
		return nil, err
	}
	return objectMembers(body)
}

func checkSyntax(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		switch _, err := d.ReadToken(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return syntaxRefusal(err, d.InputOffset())
		case d.StackDepth() > maxDepth:
			return invalid(fmt.Sprintf("The body must not be nested more than %d levels deep.", maxDepth))
		case d.StackDepth() == 0:
			if end := d.InputOffset(); len(bytes.Trim(body[end:], " \t\r\n")) > 0 {
				return invalid(fmt.Sprintf("The body must end after its JSON object, at byte %d.", end))
			}
			return nil
		}
	}
}

// syntaxRefusal replaces the decoder's error by words for merchants.
func syntaxRefusal(err error, offset int64) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return invalid(fmt.Sprintf("The body is not valid JSON at byte %d.", offset))
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		var f faults
		var path []string
		for token := range syntax.JSONPointer.Tokens() {
			path = append(path, shorten(token))
		}
		f.add(strings.Join(path, "."), "appears twice")
		return f.err()
	}
	return invalid(fmt.Sprintf("The body is not valid JSON at byte %d.", syntax.ByteOffset))
}

// objectMembers splits a JSON object that passed checkSyntax into its members.
func objectMembers(value []byte) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(value))
	if d.PeekKind() != '{' {
		return nil, invalid("The body must be a JSON object.")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	var members []member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("read name: %w", err)
		}
		m := member{name: name.String()} // read it now: the next read voids the token
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read value: %w", err)
		}
		m.value = value.Clone()
		members = append(members, m)
	}
	return members, nil
}

// arrayElements splits a JSON array that passed checkSyntax into its elements. Another value has none.
func arrayElements(value jsontext.Value) (elements []jsontext.Value) {
	_ = json.Unmarshal(value, &elements) // only another type can fail
	return elements
}

// unquote returns the text of a JSON string.
func unquote(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value) // cannot fail after checkSyntax
	return string(text)
}
