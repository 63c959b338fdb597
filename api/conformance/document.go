// Package conformance checks HTTP answers and webhook events against an OpenAPI 3.1 document. Tests
// use it. A fault that it reports is a difference between the service and its document.
//
// Schemas of OpenAPI 3.1 are JSON Schema 2020-12, so a JSON Schema library checks them, at their
// place in the document. This package checks the rest: the operation of a request, and the
// statuses, headers and bodies of that operation.
//
// No library does all of that. In November 2026 three were tried on exchanges of package api, and on exchanges with
// faults made on purpose. kin-openapi v0.152 misses undocumented and duplicate headers, bytes after a JSON body,
// undocumented request bodies and query parameters, and answers outside of operations. It refused 7 of 8,330 good
// answers and took 33 ms for each exchange. libopenapi-validator v0.16.2 takes 0.1 ms. Of 15 faults it misses 6:
// undocumented and duplicate headers, undocumented properties, query parameters and request bodies, and an empty body.
// Its strict mode misses 3 (duplicate headers, undocumented request bodies, an empty body), and refuses metadata, whose
// names are the merchant's. It brings 10 modules. speakeasy-api/openapi checks documents but no answers. None of the
// three checks webhooks.
package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/mux"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// outside holds the answers to requests without an operation, by status. OpenAPI has no place for
// them.
const outside = "/x-answers-outside-operations"

// Document is an OpenAPI document. Several goroutines may use it.
type Document struct {
	root     any // as encoding/json decodes it, with json.Number for numbers
	router   *mux.Router
	compiler *jsonschema.Compiler

	mu      sync.Mutex // guards compiler and schemas
	schemas map[string]*jsonschema.Schema
}

// resource is the document's address for the compiler. Nothing fetches it.
const resource = "file:///openapi.json"

// Parse reads a document in YAML or JSON. It does not check that the document is valid OpenAPI; a
// linter does.
func Parse(text []byte) (*Document, error) {
	var parsed any
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	asJSON, err := json.Marshal(parsed)
	if err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	d := &Document{
		router: mux.NewRouter().SkipClean(true).UseEncodedPath(), compiler: jsonschema.NewCompiler(),
		schemas: map[string]*jsonschema.Schema{},
	}
	if d.root, err = jsonschema.UnmarshalJSON(bytes.NewReader(asJSON)); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(d.object("/paths"))) { // a name comes before {id}
		d.router.Path(path)
	}
	d.close()
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(resource, d.root); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	return d, nil
}

// Operation is a method of a path, such as GET /v1/checkout/{id}.
type Operation struct {
	Method string // upper case
	Path   string // template, such as /v1/checkout/{id}
}

func (o Operation) String() string { return o.Method + " " + o.Path }

func (o Operation) pointer() string {
	return "/paths" + token(o.Path) + token(strings.ToLower(o.Method))
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// Operations returns all operations, sorted by path and method.
func (d *Document) Operations() []Operation {
	var all []Operation
	for path, item := range d.object("/paths") {
		for name := range item.(map[string]any) {
			if slices.Contains(methods, name) {
				all = append(all, Operation{strings.ToUpper(name), path})
			}
		}
	}
	slices.SortFunc(all, func(a, b Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return all
}

// Statuses returns the statuses that an operation can answer with, sorted.
func (d *Document) Statuses(o Operation) []int {
	var all []int
	for name := range d.object(o.pointer() + "/responses") {
		if status, err := strconv.Atoi(name); err == nil {
			all = append(all, status)
		}
	}
	slices.Sort(all)
	return all
}

// path returns the template that fits the path of an address, "" when none fits.
func (d *Document) path(u *url.URL) (template string) {
	var match mux.RouteMatch
	if d.router.Match(&http.Request{URL: u}, &match) {
		template, _ = match.Route.GetPathTemplate() // each route has a path
	}
	return template
}

// object returns the object at a pointer, empty when there is none.
func (d *Document) object(pointer string) map[string]any {
	object, _ := d.value(pointer).(map[string]any)
	return object
}

// value returns the value at a JSON pointer, nil when there is none. It does not follow references
// on the way.
func (d *Document) value(pointer string) any {
	at := d.root
	for name := range jsontext.Pointer(pointer).Tokens() {
		switch parent := at.(type) {
		case map[string]any:
			at = parent[name]
		case []any:
			i, _ := strconv.Atoi(name)
			at = parent[i]
		default:
			return nil
		}
	}
	return at
}

// resolve returns the pointer to which the reference at pointer leads. It returns pointer when there
// is no reference.
func (d *Document) resolve(pointer string) string {
	for {
		ref, ok := d.object(pointer)["$ref"].(string)
		if !ok {
			return pointer
		}
		pointer = strings.TrimPrefix(ref, "#")
	}
}

// token returns name as a part of a JSON pointer.
func token(name string) string { return string(jsontext.Pointer("").AppendToken(name)) }

// check checks a value, as jsonschema.UnmarshalJSON decodes it, against the schema at a pointer.
func (d *Document) check(pointer string, value any) error {
	schema, err := d.schema(pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if schema, ok := d.schemas[pointer]; ok {
		return schema, nil
	}
	schema, err := d.compiler.Compile(resource + "#" + fragment(pointer))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", pointer, err)
	}
	d.schemas[pointer] = schema
	return schema, nil
}

// fragment escapes the characters that a URL's fragment cannot have.
func fragment(pointer string) string {
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(pointer)
}

// checkText parses a text as the schema's type and checks it against the schema at a pointer.
func (d *Document) checkText(pointer, text string) error {
	var value any = text
	switch typ := d.object(d.resolve(pointer))["type"]; typ {
	case "integer", "boolean", "number", "object":
		parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return fmt.Errorf("%q is not of type %v", text, typ)
		}
		value = parsed
	}
	return d.check(pointer, value)
}

// checkJSON checks a JSON text against the schema at a pointer.
func (d *Document) checkJSON(pointer string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return d.check(pointer, value)
}

// close lets no object have a property that the document does not name. The document itself leaves
// the objects of answers open, because fields may be added to them. A test must notice such a field.
//
// An object inside an allOf stays open, because the other parts have properties too. So each
// reference in an allOf is replaced with a copy.
func (d *Document) close() {
	for _, root := range []string{"/components/schemas", "/components/responses", "/paths"} {
		d.closeBelow(d.value(root))
	}
}

// closeBelow closes the schemas at a value and below it.
func (d *Document) closeBelow(value any) {
	switch at := value.(type) {
	case []any:
		for _, child := range at {
			d.closeBelow(child)
		}
	case map[string]any:
		parts, whole := at["allOf"].([]any)
		for i := range parts {
			part := d.copySchema(parts[i])
			d.closeBelow(part["properties"])
			parts[i] = part
		}
		for name, child := range at {
			if name != "allOf" {
				d.closeBelow(child)
			}
		}
		_, object := at["properties"].(map[string]any)
		if (whole || object) && at["additionalProperties"] == nil {
			at["unevaluatedProperties"] = false
		}
	}
}

// copySchema returns an open copy of a schema, or of the one to which its reference leads.
func (d *Document) copySchema(schema any) map[string]any {
	original, _ := schema.(map[string]any)
	if ref, ok := original["$ref"].(string); ok {
		original = d.object(strings.TrimPrefix(ref, "#"))
	}
	open := maps.Clone(original)
	delete(open, "unevaluatedProperties")
	return open
}

// CheckExamples checks every example against its schema. It returns the number of examples and a
// fault for each example that does not fit.
func (d *Document) CheckExamples() (count int, faults []error) {
	d.eachObject("", d.root, func(pointer string, object map[string]any) {
		if object["schema"] == nil {
			for i := range exampleList(object) {
				count++
				if err := d.check(pointer, exampleList(object)[i]); err != nil {
					faults = append(faults, fmt.Errorf("%s/examples/%d: %w", pointer, i, err))
				}
			}
			return
		}

		var at []string
		if _, ok := object["example"]; ok {
			at = append(at, pointer+"/example")
		}
		for name := range d.object(pointer + "/examples") {
			at = append(at, d.resolve(pointer+"/examples"+token(name))+"/value")
		}

		for _, example := range at {
			count++
			if err := d.check(pointer+"/schema", d.value(example)); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", pointer, example, err))
			}
		}
	})
	return count, faults
}

// exampleList returns the examples of a schema. In a schema they are an array, elsewhere an object.
func exampleList(schema map[string]any) []any {
	list, _ := schema["examples"].([]any)
	return list
}

// eachObject calls do for every object in a value. It skips examples.
func (d *Document) eachObject(pointer string, value any, do func(string, map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		do(pointer, value)
		for name, member := range value {
			if !slices.Contains([]string{"example", "examples", "value"}, name) {
				d.eachObject(pointer+token(name), member, do)
			}
		}
	case []any:
		for i, element := range value {
			d.eachObject(pointer+"/"+strconv.Itoa(i), element, do)
		}
	}
}

// eventType returns the event's type in a body, "" when there is none.
func eventType(body []byte) string {
	var envelope struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return ""
	}
	return envelope.Type
}

// ExamplesOf returns the number of examples for an operation's answer with a status.
func (d *Document) ExamplesOf(o Operation, status int) int {
	content := d.object(d.resolve(o.pointer()+"/responses/"+strconv.Itoa(status)) + "/content/application~1json")
	examples, _ := content["examples"].(map[string]any)
	if content["example"] != nil {
		return 1
	}
	return len(examples)
}
