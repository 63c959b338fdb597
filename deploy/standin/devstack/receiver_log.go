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

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/webhook"
)

// LoggedRequest is a line of a receiver's log. It describes one request, written at its end, or the
// start of a listener. It holds no secret and no body.
type LoggedRequest struct {
	At       time.Time `json:"at"`       // when the body had arrived
	Listener string    `json:"listener"` // where requests go: http://127.0.0.1:8082/webhook
	// Started marks the start of a listener instead of a request. The log has every request to the
	// listener from then on.
	Started bool `json:"started,omitempty"`
	// Canary marks a request to an address that must never get one.
	Canary bool `json:"canary,omitempty"`

	Method      string `json:"method,omitempty"` // "" for a connection without a request; only for canaries
	Proto       string `json:"proto,omitempty"`
	TLS         bool   `json:"tls,omitempty"`
	Delivery    string `json:"delivery,omitempty"`     // X-Service-Delivery-Id
	Attempt     string `json:"attempt,omitempty"`      // X-Service-Attempt
	HeaderEvent string `json:"header_event,omitempty"` // X-Service-Event-Id
	EventID     string `json:"event_id,omitempty"`     // id of the body
	Type        string `json:"type,omitempty"`         // type of the body
	T           int64  `json:"t,omitempty"`            // time in the signature
	SignatureOK bool   `json:"signature_ok,omitempty"`
	BodySHA256  string `json:"body_sha256,omitempty"` // hexadecimal
	// Status was answered at AnsweredAt; nil when the connection broke first.
	Status     int        `json:"status,omitempty"`
	AnsweredAt *time.Time `json:"answered_at,omitempty"`
}

// ReceiverLog is a file to which receivers write every request. Checks compare it with the service's own records.
// Several receivers may share one log, also in several processes. A nil log writes nothing.
type ReceiverLog struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first
}

// OpenReceiverLog opens a log for appending. If a killed process left an unfinished line, only that
// line is lost: an empty line ends it. Readers skip empty lines.
func OpenReceiverLog(path string) (*ReceiverLog, error) {
	file, err := openLog(path)
	if err != nil {
		return nil, fmt.Errorf("receiver's log: %w", err)
	}
	if _, err := file.WriteString("\n"); err != nil {
		_ = file.Close() // report the earlier error, not this one
		return nil, fmt.Errorf("receiver's log: %w", err)
	}
	return &ReceiverLog{file: file}, nil
}

// write appends a line with one system call, so that lines of several processes never mix.
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

// Close closes the file. It also returns the first error of the writes.
func (l *ReceiverLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}

// ReadReceiverLog reads a log, also while receivers write to it. It skips an unfinished line at the
// end or from a killed writer. Any other malformed line is an error.
func ReadReceiverLog(path string) ([]LoggedRequest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var (
		all  []LoggedRequest
		torn error // the error of the line before
	)
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // the last line is unfinished
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

// LogTo makes the receiver write every following request to log.
func (r *Receiver) LogTo(log *ReceiverLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = log
	log.write(LoggedRequest{At: time.Now(), Listener: r.url, Started: true})
}

// writeLog writes a finished arrival to the log.
func (r *Receiver) writeLog(a Arrival, req *http.Request, answered *time.Time) {
	r.mu.Lock()
	log := r.log
	r.mu.Unlock()
	log.write(LoggedRequest{
		At: a.At, Listener: r.url, Method: req.Method, Proto: req.Proto, TLS: req.TLS != nil,
		Delivery: a.Delivery, Attempt: a.Attempt, HeaderEvent: a.Header.Get("X-Service-Event-Id"), EventID: a.EventID,
		Type: a.Type,
		T:    signedAt(a.Header.Get(webhook.SignatureHeader)), SignatureOK: a.Signature == nil,
		BodySHA256: fmt.Sprintf("%x", sha256.Sum256(a.Body)), Status: a.Status, AnsweredAt: answered,
	})
}

// signedAt returns the time in a signature, valid or not; 0 when there is none.
func signedAt(header string) int64 {
	for part := range strings.SplitSeq(header, ",") {
		if text, ok := strings.CutPrefix(part, "t="); ok {
			t, _ := strconv.ParseInt(text, 10, 64) // malformed: 0
			return t
		}
	}
	return 0
}

// StartCanary listens on address, which must never get a request, and writes every request to log.
// It answers 200, so that a wrong sender notices nothing.
func StartCanary(address string, log *ReceiverLog) (stop func(), err error) {
	listener, err := pgtemp.Listen(address)
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
			note(LoggedRequest{
				Method: req.Method, Proto: req.Proto, Delivery: req.Header.Get("X-Service-Delivery-Id"),
				Attempt: req.Header.Get("X-Service-Attempt"),
			})
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
