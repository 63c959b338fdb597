package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Exchange is a request and its answer.
type Exchange struct {
	Method      string
	URL         *url.URL
	Request     http.Header
	RequestBody []byte // the part that the handler read
	Status      int
	Header      http.Header
	Body        []byte
}

// ordinary are headers that no operation documents: the document describes them once, or HTTP does.
var ordinary = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type",
	"Date", "Referrer-Policy",
	"Vary", "X-Content-Type-Options",
}

// Check returns the operation of an exchange. The error describes how the answer differs from the
// document: an undocumented status, header or field, a missing one, or a value of another shape. If
// the service accepted the request, the document must allow the request too. An exchange without an
// operation must be a documented 404 or 405; its operation is zero.
func (d *Document) Check(e Exchange) (Operation, error) {
	o := Operation{e.Method, d.path(e.URL)}

	at := d.resolve(o.pointer() + "/responses/" + strconv.Itoa(e.Status))
	if d.object(o.pointer()) == nil || e.Method != strings.ToUpper(e.Method) { // methods are case-sensitive
		want := http.StatusNotFound
		if o.Path != "" {
			want = http.StatusMethodNotAllowed
		}
		if e.Status != want {
			return Operation{}, fmt.Errorf("%s %s is not documented, but answered %d", e.Method, e.URL.EscapedPath(), e.Status)
		}
		o, at = Operation{}, outside+"/"+strconv.Itoa(want)
	}

	if d.object(at) == nil {
		return o, fmt.Errorf("%s: status %d is not documented", o, e.Status)
	}

	documented := map[string]string{}
	for name := range d.object(at + "/headers") {
		documented[http.CanonicalHeaderKey(name)] = d.resolve(at + "/headers" + token(name))
	}
	usual := func(name string) bool { return slices.Contains(ordinary, name) }
	errs := []error{
		d.checkHeaders(documented, e.Header, usual), d.checkBody(at, e.Header.Get("Content-Type"), e.Body),
	}
	if e.Status < 300 {
		errs = append(errs, d.checkParameters(o, e), d.checkRequestBody(o, e))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("%s %s answered %d: %w", e.Method, e.URL.EscapedPath(), e.Status, err)
	}
	return o, nil
}

// checkHeaders checks headers against the documented ones, whose pointers it gets. Headers that are usual may be
// undocumented.
func (d *Document) checkHeaders(documented map[string]string, got http.Header, usual func(name string) bool) error {
	var errs []error
	for name := range got {
		if documented[name] == "" && !usual(name) {
			errs = append(errs, fmt.Errorf("header %s is not documented", name))
		}
	}
	for name, at := range documented {
		errs = append(errs, d.checkHeader(at, name, got.Values(name)))
	}
	return errors.Join(errs...)
}

// checkHeader checks the values of a header against the header at a pointer.
func (d *Document) checkHeader(at, name string, values []string) error {
	switch {
	case len(values) > 1:
		return fmt.Errorf("header %s appears %d times", name, len(values))
	case len(values) == 0 && d.object(at)["required"] == true:
		return fmt.Errorf("header %s is missing", name)
	case len(values) == 0:
		return nil
	}
	if err := d.checkText(at+"/schema", values[0]); err != nil {
		return fmt.Errorf("header %s: %w", name, err)
	}
	return nil
}

// checkBody checks a body against the content of the object at a pointer.
func (d *Document) checkBody(owner, contentType string, body []byte) error {
	content := d.object(owner + "/content")
	if len(content) == 0 {
		if len(body) > 0 {
			return errors.New("there is a body, but none is documented")
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || content[mediaType] == nil {
		return fmt.Errorf("media type %q is not documented", contentType)
	}
	schema := owner + "/content" + token(mediaType) + "/schema"
	if mediaType != "application/json" {
		return d.check(schema, string(body))
	}
	return d.checkJSON(schema, body)
}

// checkParameters checks the query and the documented headers of an accepted request. It need not check the path: the
// service accepted the request, so the id in the path was right.
func (d *Document) checkParameters(o Operation, e Exchange) error {
	query, known := e.URL.Query(), 0
	var errs []error

	for name, at := range d.parameters(o.pointer()) {
		var values []string
		switch d.object(at)["in"] {
		case "query":
			values = takeParameter(query, name, d.object(at)["style"] == "deepObject")
			known++
		case "header":
			values = e.Request.Values(name)
		}
		for _, value := range values {
			if err := d.checkText(at+"/schema", value); err != nil {
				errs = append(errs, fmt.Errorf("parameter %s: %w", name, err))
			}
		}
	}

	for name := range query {
		if known == 0 {
			break // an operation without parameters ignores a query
		}
		errs = append(errs, fmt.Errorf("parameter %s was accepted but is not documented", name))
	}
	return errors.Join(errs...)
}

// takeParameter removes a parameter from the query and returns its values. Those of a deep object, name[key]=value, are
// its members as one JSON text.
func takeParameter(query url.Values, name string, deep bool) []string {
	if !deep {
		values := query[name]
		delete(query, name)
		return values
	}
	members := map[string]string{}
	for parameter, values := range query {
		if key, ok := strings.CutPrefix(parameter, name+"["); ok && strings.HasSuffix(key, "]") {
			members[strings.TrimSuffix(key, "]")] = values[0]
			delete(query, parameter)
		}
	}
	if len(members) == 0 {
		return nil
	}
	text, _ := json.Marshal(members) // strings always have a JSON form
	return []string{string(text)}
}

func (d *Document) checkRequestBody(o Operation, e Exchange) error {
	body := bytes.TrimSpace(e.RequestBody)
	described := d.object(o.pointer() + "/requestBody")
	switch {
	case described == nil && (len(body) == 0 || string(body) == "{}"):
		return nil
	case described == nil:
		return errors.New("a body was accepted but is not documented")
	case len(body) == 0 && described["required"] != true:
		return nil
	}
	if err := d.checkBody(o.pointer()+"/requestBody", e.Request.Get("Content-Type"), e.RequestBody); err != nil {
		return fmt.Errorf("the request was accepted: %w", err)
	}
	return nil
}

// CheckDelivery checks the headers and the body of a delivery against the webhook of the event's
// type.
func (d *Document) CheckDelivery(header http.Header, body []byte) error {
	usual := func(name string) bool { return !strings.HasPrefix(name, "X-") }
	return errors.Join(d.checkHeaders(d.parameters(webhookOf(body)), header, usual), d.CheckEvent(body))
}

// parameters returns the pointer to each parameter of an operation, by name.
func (d *Document) parameters(operation string) map[string]string {
	all := map[string]string{}
	list, _ := d.value(operation + "/parameters").([]any)
	for i := range list {
		at := d.resolve(fmt.Sprintf("%s/parameters/%d", operation, i))
		name, _ := d.object(at)["name"].(string)
		all[name] = at
	}
	return all
}

// webhookOf returns the pointer to the webhook of an event's type.
func webhookOf(body []byte) string { return "/webhooks" + token(eventType(body)) + "/post" }

// CheckEvent checks the body of a delivery against the webhook of its type.
func (d *Document) CheckEvent(body []byte) error {
	at := webhookOf(body) + "/requestBody"
	if d.object(at) == nil {
		return fmt.Errorf("events of type %q are not documented", eventType(body))
	}
	if err := d.checkBody(at, "application/json", body); err != nil {
		return fmt.Errorf("event %s: %w", eventType(body), err)
	}
	return nil
}
