package e2e_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// corpusNotation is what the corpus writes between ‹ and ›, innermost first:
//
//	‹name›               a value of the world, such as ‹session›
//	‹hex:ff fe›          bytes
//	‹repeat:500:a›       a text that often; %d in it counts from 0
//	‹list:51:"k%d":1›    the same with commas between
//	‹new:cs›             an id of nothing
//	‹json:text›          a JSON string of it
//	‹hmac:current:text›  hexadecimal HMAC-SHA256, keyed with a secret of the world, "" without one
//	‹fill:1048576:text›  the text with spaces behind it, up to a size
//	‹upper:text›, ‹swap:text›, ‹query:text›, ‹base64:hex›, ‹cut:10:text›, ‹pretty:json›, ‹sorted:json›, ‹replace:a:b:text›
var corpusNotation = regexp.MustCompile(`‹[^‹›]*›`)

// say returns what text stands for.
func (w *corpusWorld) say(t *testing.T, text string, values map[string]string) string {
	for strings.Contains(text, "‹") && corpusNotation.MatchString(text) { // the first looks at some megabytes in no time
		text = corpusNotation.ReplaceAllStringFunc(text, func(note string) string {
			note = strings.TrimSuffix(strings.TrimPrefix(note, "‹"), "›")
			if value, ok := values[note]; ok {
				return value
			}
			if value, ok := w.values[note]; ok {
				return value
			}
			name, rest, ok := strings.Cut(note, ":")
			require.True(t, ok, "‹%s› is not known", note)
			return w.apply(t, name, rest)
		})
	}
	return text
}

func (w *corpusWorld) apply(t *testing.T, name, rest string) string {
	before, after, _ := strings.Cut(rest, ":")
	switch name {
	case "hex":
		raw := must.Get(hex.DecodeString(strings.ReplaceAll(rest, " ", "")))(t)
		return string(raw)
	case "repeat":
		return repeated(t, before, after, "")
	case "list":
		return repeated(t, before, after, ",")
	case "fill":
		size := must.Get(strconv.Atoi(before))(t)
		return after + strings.Repeat(" ", size-len(after))
	case "new":
		return checkout.NewID(rest)
	case "json":
		text := must.Get(json.Marshal(rest))(t)
		return string(text)
	case "hmac":
		secret, ok := w.secrets[before]
		require.True(t, ok || before == "", "no secret %q", before)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(after))
		return hex.EncodeToString(mac.Sum(nil))
	case "upper":
		return strings.ToUpper(rest)
	case "swap": // of upper and lower case
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 'a' + 'A'
			}
			return r
		}, rest[:len(rest)-1]) + rest[len(rest)-1:]
	case "query":
		return url.QueryEscape(rest)
	case "base64":
		raw := must.Get(hex.DecodeString(rest))(t)
		return base64.StdEncoding.EncodeToString(raw)
	case "cut":
		n := must.Get(strconv.Atoi(before))(t)
		return after[:n]
	case "pretty":
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, []byte(rest), "", "  "))
		return b.String()
	case "sorted":
		var v any
		require.NoError(t, json.Unmarshal([]byte(rest), &v))
		text := must.Get(json.Marshal(v))(t)
		return string(text)
	case "replace":
		with, in, _ := strings.Cut(after, ":")
		require.Contains(t, in, before)
		return strings.Replace(in, before, with, 1)
	}
	require.Fail(t, "‹"+name+":› is not known")
	return ""
}

func repeated(t *testing.T, count, text, between string) string {
	n := must.Get(strconv.Atoi(count))(t)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(strings.ReplaceAll(text, "%d", strconv.Itoa(i)))
	}
	return b.String()
}
