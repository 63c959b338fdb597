// Receiver is a merchant's server for webhooks, to start from: it verifies the signature, keeps
// each event once, answers and does the work afterwards. It uses the standard library only.
//
//	WEBHOOK_SECRET=whsec_… PORT=3000 go run ./deploy/receivers/go
//
// Register https://your-host/webhook. It listens on this computer only: TLS is the business of the proxy before it.
//
// The receivers in Go, Node and Python answer alike:
//
//   - 404 to another path than /webhook, compared as it was sent; what follows a ? does not matter.
//   - 405 to another method than POST.
//   - 400 to a body that did not arrive as a whole, has more than 1 MiB or is not signed, or was signed more than five
//     minutes ago, and to what is signed and not an event: an object in JSON (UTF-8, no byte
//     order mark, at most 100 levels deep)
//     whose id is evt_ and 1 to 64 of 0-9, A-Z, a-z and _. Of two members of a name the last counts.
//   - 200 to an event, also when it comes again.
//
// What is not proper HTTP is refused by the server of each language in its own way.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// maxBody is far more than an event has: nobody can fill the memory.
const maxBody = 1 << 20

// maxDepth is far more levels than an event has.
const maxDepth = 100

// verify reports whether the header signs the body, which must be the raw bytes as they arrived:
// JSON that was parsed and written again has other bytes.
func verify(secret, header string, body []byte, now time.Time) bool {
	var times, signatures []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			times = append(times, value)
		case "v1": // two while a rotated secret still signs
			signatures = append(signatures, value)
		}
	}
	if len(times) != 1 {
		return false
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || len(times[0]) > 12 || strings.Trim(times[0], "0123456789") != "" { // a sign would be taken
		return false
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false // somebody may be sending again what they have seen
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(times[0] + "."))
	mac.Write(body)
	want := []byte(hex.EncodeToString(mac.Sum(nil)))
	return slices.ContainsFunc(signatures, func(signature string) bool {
		// In constant time: with == the time it takes tells how many digits are right, and so, digit by digit, all of them.
		return hmac.Equal([]byte(signature), want)
	})
}

// event is the part of an event that everybody needs; its data depends on the type.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// eventID is what an id may look like, as it becomes the name of a file.
var eventID = regexp.MustCompile(`^evt_[0-9A-Za-z_]{1,64}$`)

var errNoEvent = errors.New("this is not an event")

// parse returns the event of a body.
func parse(body []byte) (event, error) {
	var e event
	var members map[string]json.RawMessage // a struct would take "ID" for "id" too, and a null for no member
	if !utf8.Valid(body) || !shallow(body) || json.Unmarshal(body, &members) != nil {
		return e, errNoEvent
	}
	if json.Unmarshal(members["id"], &e.ID) != nil || !eventID.MatchString(e.ID) {
		return e, errNoEvent
	}
	if json.Unmarshal(members["type"], &e.Type) != nil {
		e.Type = "" // there is none, or it is no string
	}
	return e, nil
}

// shallow reports whether JSON is at most maxDepth levels deep. Parsers have limits of their own, each another.
func shallow(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return true
}

// process is your part: ship the goods, write the accounts. It runs after the answer, so it may take its time.
func process(e event) {
	fmt.Println("processed", e.ID, e.Type)
}

// inbox is a directory with a file for each event that was ever accepted, and an empty file .done
// beside it when it has been processed. A real shop has a table instead, in its own database: the
// event's id in a unique column, inserted in the same transaction as the effect. Here a crash
// between process and .done makes the work happen twice, there it cannot.
type inbox string

// keep stores an event and reports whether it is new. It is on disk before it is answered: after a 200 it never comes
// again. A link, unlike a write, is made as a whole or not at all, and fails when there is one.
func (in inbox) keep(e event, body []byte) (isNew bool, err error) {
	file, err := os.CreateTemp(string(in), "*.tmp")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // the link stays
	_, err = file.Write(body)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return false, err
	}
	err = os.Link(file.Name(), filepath.Join(string(in), e.ID+".json"))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// work processes an event and notes that it did.
func (in inbox) work(e event) {
	process(e)
	if err := os.WriteFile(filepath.Join(string(in), e.ID+".done"), nil, 0o600); err != nil {
		log.Print(err) // it is processed again after the next start
	}
}

// unfinished returns what was accepted and not processed when the program last ended.
func (in inbox) unfinished() ([]event, error) {
	names, err := filepath.Glob(filepath.Join(string(in), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []event
	for _, name := range names {
		if _, err := os.Stat(strings.TrimSuffix(name, ".json") + ".done"); err == nil {
			continue
		}
		body, err := os.ReadFile(name) // #nosec G304 -- a file of our own directory
		if err != nil {
			return nil, err
		}
		e, err := parse(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// receiver takes deliveries.
type receiver struct {
	secret string
	inbox  inbox
	works  sync.WaitGroup
}

func (rec *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, _, _ := strings.Cut(r.RequestURI, "?"); path != "/webhook" {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST /webhook", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body) // the rest is read too: leaving early would cut the answer off
	}
	// Two headers become one with two timestamps, which is refused.
	header := strings.Join(r.Header.Values("X-Service-Signature"), ",")
	if err != nil || len(body) > maxBody || !verify(rec.secret, header, body, time.Now()) {
		http.Error(w, "the signature does not fit", http.StatusBadRequest)
		return
	}
	e, err := parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	isNew, err := rec.inbox.keep(e, body)
	if err != nil {
		log.Print(err)
		http.Error(w, "try again later", http.StatusInternalServerError) // it is sent again
		return
	}
	if isNew {
		rec.works.Go(func() { rec.inbox.work(e) })
	}
	// A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
	w.WriteHeader(http.StatusOK)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	secret, port := os.Getenv("WEBHOOK_SECRET"), os.Getenv("PORT")
	if secret == "" || port == "" {
		return errors.New("WEBHOOK_SECRET and PORT must be set")
	}
	rec := &receiver{secret: secret, inbox: "webhook-events"}
	if err := os.MkdirAll(string(rec.inbox), 0o700); err != nil {
		return err
	}
	unfinished, err := rec.inbox.unfinished()
	if err != nil {
		return err
	}
	for _, e := range unfinished {
		rec.works.Go(func() { rec.inbox.work(e) })
	}

	server := &http.Server{
		Addr: net.JoinHostPort("127.0.0.1", port), Handler: rec, ReadTimeout: 10 * time.Second,
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * with 200
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// What has begun is finished; what comes now is sent again later.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(ctx)
	rec.works.Wait()
	return err
}
