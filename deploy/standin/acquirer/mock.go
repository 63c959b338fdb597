package acquirer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/storage/pgtemp"
)

// mockProgram is stripe-mock in the version that deploy/tools/stripemock pins.
var mockProgram = build.Program{
	Name: "stripe-mock", Title: "stripe-mock", Takes: "some seconds",
	Module: "deploy/tools/stripemock", Package: "github.com/stripe/stripe-mock", Files: []string{"go.mod", "go.sum"},
}

// A mock is the address of a running stripe-mock.
type mock string

// startMock builds stripe-mock if need be and runs it, once for all doubles of this process: it keeps nothing. It ends
// with this process. The working directory must be inside the source tree.
var startMock = sync.OnceValues(func() (mock, error) {
	ctx := context.Background()
	program, err := mockProgram.Build(ctx, io.Discard)
	if err != nil {
		return "", err
	}
	ports, err := pgtemp.FreePorts(1)
	if err != nil {
		return "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var said bytes.Buffer
	// Without an address for HTTPS it would take a fixed port of all networks for it.
	cmd := exec.Command(program, "-http-addr", address, "-https-addr", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &said, &said
	process, err := pgtemp.StartTied(cmd, syscall.SIGKILL)
	if err != nil {
		return "", err
	}
	m := mock("http://" + address)
	look := func(ctx context.Context) error {
		_, err := m.fixture(ctx, "/v1/balance")
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := process.Ready(ctx, look); err != nil {
		process.Kill()
		return "", fmt.Errorf("start stripe-mock: %w: %s", err, &said)
	}
	return m, nil
})

var mockClient = &http.Client{Timeout: 20 * time.Second}

// judge asks stripe-mock whether the request has the right shape. It returns stripe-mock's answer,
// whose body is the fixture of the object or the refusal.
func (m mock) judge(
	ctx context.Context, method, path, query string, body []byte, contentType, version string,
) (int, object, error) {
	//nolint:gosec // G704: our stripe-mock
	request, err := http.NewRequestWithContext(ctx, method, string(m)+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.URL.RawQuery = query
	request.Header.Set("Authorization", "Bearer sk_test_123") // it takes no live key
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if version != "" {
		request.Header.Set("Stripe-Version", version)
	}
	response, err := mockClient.Do(request) //nolint:gosec // G704: as above
	if err != nil {
		return 0, nil, fmt.Errorf("ask stripe-mock: %w", err)
	}
	defer response.Body.Close()
	var fixture object
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&fixture); err != nil {
		return 0, nil, fmt.Errorf("answer of stripe-mock to %s %s: %w", method, path, err)
	}
	return response.StatusCode, fixture, nil
}

// fixture returns stripe-mock's example of an object, for objects that no request asks for.
func (m mock) fixture(ctx context.Context, path string) (object, error) {
	status, got, err := m.judge(ctx, http.MethodGet, path, "", nil, "", "")
	if err == nil && status != http.StatusOK {
		err = errors.New("stripe-mock has no fixture of " + path)
	}
	return got, err
}

// An object is one of Stripe's, as JSON. Numbers are json.Number or int64, never float.
type object map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(text []byte) error {
	*o = nil // pgx reads the next row into the same one
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode((*map[string]any)(o))
}

// text returns a field that is text; "" for everything else.
func (o object) text(name string) string {
	value, _ := o[name].(string)
	return value
}

// flag returns a field that is true or false; false for everything else.
func (o object) flag(name string) bool {
	value, _ := o[name].(bool)
	return value
}

// number returns a field that is a whole number; 0 for everything else.
func (o object) number(name string) int64 {
	switch value := o[name].(type) {
	case json.Number:
		n, _ := value.Int64() // 0 for a fraction: no amount of Stripe's is one
		return n
	case int64:
		return value
	}
	return 0
}

// part returns a field that is an object; an empty one for everything else.
func (o object) part(name string) object {
	switch value := o[name].(type) {
	case map[string]any:
		return value
	case object:
		return value
	}
	return object{}
}
