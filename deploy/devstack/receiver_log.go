package devstack

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/checkout/workflows/webhook"
)

// LoggedRequest is a line of a receiver's log: one request, written when it is
// over, or the start of a listener. It holds no secret and no body.
type LoggedRequest struct {
	At       time.Time `json:"at"`       // when the body had arrived
	Listener string    `json:"listener"` // where requests go: http://127.0.0.1:8082/webhook
	// Started marks the start of the listener instead of a request: what was
	// sent to it from then on is in this log.
	Started bool `json:"started,omitempty"`
	// Canary marks what came to an address to which nothing may ever come.
	Canary bool `json:"canary,omitempty"`

	Method      string `json:"method,omitempty"` // "" for a connection without a request, of a canary only
	Proto       string `json:"proto,omitempty"`
	TLS         bool   `json:"tls,omitempty"`
	Delivery    string `json:"delivery,omitempty"`     // X-Service-Delivery-Id
	Attempt     string `json:"attempt,omitempty"`      // X-Service-Attempt
	HeaderEvent string `json:"header_event,omitempty"` // X-Service-Event-Id
	EventID     string `json:"event_id,omitempty"`     // id of the body
	Type        string `json:"type,omitempty"`         // type of the body
	T           int64  `json:"t,omitempty"`            // of the signature
	SignatureOK bool   `json:"signature_ok,omitempty"`
	BodySHA256  string `json:"body_sha256,omitempty"` // hexadecimal
	// Status was answered at AnsweredAt; nil when the connection broke first.
	Status     int        `json:"status,omitempty"`
	AnsweredAt *time.Time `json:"answered_at,omitempty"`
}

// ReceiverLog is a file to which receivers write every request, for checks that
// hold what a merchant saw against what the service says. Several receivers, also
// of several processes, may share one. A nil log notes nothing.
type ReceiverLog struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first
}

// OpenReceiverLog opens a log to append to. A line that a killed process left
// unfinished stays, and is the only one that is lost.
func OpenReceiverLog(path string) (*ReceiverLog, error) {
	file, err := openLog(path)
	if err != nil {
		return nil, fmt.Errorf("receiver's log: %w", err)
	}
	if err := endLine(file, path); err != nil {
		_ = file.Close() // the error before is the one to report
		return nil, fmt.Errorf("receiver's log: %w", err)
	}
	return &ReceiverLog{file: file}, nil
}

// endLine ends a line that was torn, so that the next is whole.
func endLine(file *os.File, path string) error {
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close()
	last := []byte{0}
	info, err := content.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if _, err := content.ReadAt(last, info.Size()-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = file.Write([]byte("\n"))
	return err
}

// write appends a line with one call to the system, so that lines of several
// processes never mix.
func (l *ReceiverLog) write(r LoggedRequest) {
	if l == nil {
		return
	}
	line, err := json.Marshal(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// Close closes the file. Its error is also that of every write.
func (l *ReceiverLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}

// ReadReceiverLog reads a log, also while it is written. A line that was being
// written, or that a killed writer left, is passed over; anything else that is no
// line of a log is an error.
func ReadReceiverLog(path string) ([]LoggedRequest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var (
		all  []LoggedRequest
		torn error // of the line before
	)
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // without its end, a line is not whole
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r LoggedRequest
		if err := json.Unmarshal(line, &r); err != nil {
			if torn != nil {
				return nil, torn
			}
			torn = fmt.Errorf("%s, line %d is not a line of a receiver's log: %w", path, number, err)
			continue
		}
		if torn != nil && !r.Started {
			return nil, torn // only a writer that was started again writes after a torn line
		}
		torn = nil
		all = append(all, r)
	}
}

// LogTo makes the receiver note every request that follows in log.
func (r *Receiver) LogTo(log *ReceiverLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = log
	log.write(LoggedRequest{At: time.Now(), Listener: r.url, Started: true})
}

// logged notes an arrival that is over.
func (r *Receiver) logged(a Arrival, req *http.Request, answered *time.Time) {
	r.mu.Lock()
	log := r.log
	r.mu.Unlock()
	log.write(LoggedRequest{
		At: a.At, Listener: r.url, Method: req.Method, Proto: req.Proto, TLS: req.TLS != nil,
		Delivery: a.Delivery, Attempt: a.Attempt, HeaderEvent: a.Header.Get("X-Service-Event-Id"), EventID: a.EventID, Type: a.Type,
		T: signedAt(a.Header.Get(webhook.SignatureHeader)), SignatureOK: a.Signature == nil,
		BodySHA256: fmt.Sprintf("%x", sha256.Sum256(a.Body)), Status: a.Status, AnsweredAt: answered,
	})
}

// signedAt returns the time in a signature, whether or not it verifies; 0 when
// there is none.
func signedAt(header string) int64 {
	for part := range strings.SplitSeq(header, ",") {
		if text, ok := strings.CutPrefix(part, "t="); ok {
			t, _ := strconv.ParseInt(text, 10, 64) // malformed: 0
			return t
		}
	}
	return 0
}

// StartCanary listens on address, to which nothing may ever come, and notes in
// log whatever comes. It answers 200, as if all were well.
func StartCanary(address string, log *ReceiverLog) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	at := "http://" + listener.Addr().String()
	note := func(r LoggedRequest) {
		r.At, r.Listener, r.Canary = time.Now(), at, true
		log.write(r)
	}
	note(LoggedRequest{Started: true})
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			note(LoggedRequest{Method: req.Method, Proto: req.Proto, Delivery: req.Header.Get("X-Service-Delivery-Id"), Attempt: req.Header.Get("X-Service-Attempt")})
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				note(LoggedRequest{})
			}
		},
	}
	go func() { _ = server.Serve(listener) }() // ends with stop
	return func() { _ = server.Close() }, nil
}
