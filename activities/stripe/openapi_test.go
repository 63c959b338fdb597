package stripe_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"

	"example.com/checkout/storage/storagetest/must"
)

const specURL = "https://stripe.com/spec3.json" // a name: it is not loaded from there

// stripesDocument compiles the schemas of Stripe's OpenAPI document, as the pinned stripe-mock ships it.
var stripesDocument = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/stripe/stripe-mock")
	list.Dir = filepath.FromSlash("../../deploy/tools/stripemock")
	dir, err := list.Output()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "embedded", "openapi", "spec3.json"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		return nil, err
	}
	asJSONSchema(document)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	return compiler, compiler.AddResource(specURL, document)
})

var compiling sync.Mutex // guards the compiler

// asJSONSchema turns schemas of OpenAPI 3.0 into JSON Schema that takes no unknown field.
func asJSONSchema(value any) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			asJSONSchema(each)
		}
	case map[string]any:
		for _, each := range value {
			asJSONSchema(each)
		}
		if _, has := value["properties"].(map[string]any); has && value["additionalProperties"] == nil {
			value["additionalProperties"] = false
		}
		if value["nullable"] == true {
			orNull(value)
		}
	}
}

func orNull(schema map[string]any) {
	switch {
	case schema["type"] != nil:
		schema["type"] = []any{schema["type"], "null"}
	case schema["anyOf"] != nil:
		anyOf, _ := schema["anyOf"].([]any)
		schema["anyOf"] = append(anyOf, map[string]any{"type": "null"})
	}
	if enum, has := schema["enum"].([]any); has {
		schema["enum"] = append(enum, nil)
	}
}

// check returns an error unless an object, and each one in a list or an event, conforms to Stripe's OpenAPI document.
func check(value any) error {
	object, _ := value.(map[string]any)
	kind, _ := object["object"].(string)
	switch data := object["data"].(type) {
	case []any:
		var faults []error
		for _, item := range data {
			faults = append(faults, check(item))
		}
		return errors.Join(faults...)
	case map[string]any:
		if err := check(data["object"]); err != nil {
			return err
		}
	}
	if object["error"] != nil {
		kind = "error"
	}
	compiler, err := stripesDocument()
	if err != nil {
		return err
	}
	compiling.Lock()
	schema, err := compiler.Compile(specURL + "#/components/schemas/" + kind)
	compiling.Unlock()
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// compared returns the address of a proxy. It compares the double's answers with Stripe's document, field by field.
func compared(t *testing.T, apiURL string) string {
	to := must.Get(url.Parse(apiURL))(t)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			value, fault := jsonschema.UnmarshalJSON(bytes.NewReader(body))
			if err == nil {
				assert.NoError(t, errors.Join(fault, check(value)), "%s %s", r.Request.Method, r.Request.URL.Path)
			}
			return err
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // a lost answer
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}
