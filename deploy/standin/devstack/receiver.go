package devstack

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/checkout/deploy/standin/mailbox"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/webhook"
)

// webhookPath is where the receiver takes deliveries.
const webhookPath = "/webhook"

// maxArrivals is how many arrivals the receiver remembers.
const maxArrivals = 10_000

//go:embed receiver.html
var receiverHTML string

var receiverPage = template.Must(template.New("receiver").Funcs(template.FuncMap{"pretty": pretty}).Parse(receiverHTML))

// Arrival is one request to the receiver.
type Arrival struct {
	Number    int // the first is 1
	At        time.Time
	EventID   string
	Type      string
	Delivery  string
	Attempt   string
	Status    int   // the answer's status
	Signature error // nil: verified
	Duplicate bool  // the event had been accepted before
	Header    http.Header
	Body      []byte
}

// Receiver is a merchant's server. It verifies signatures, deduplicates by the event's id, and
// shows the arrivals. Tests can make it fail.
type Receiver struct {
	server *http.Server
	secret string
	url    string // of the webhook

	mu       sync.Mutex
	log      *ReceiverLog
	mails    *mailbox.Mailbox
	reply    func(Arrival) Reply // to a request with a valid signature
	hang     chan struct{}       // if not nil, answers wait until it is closed
	accepted map[string]bool
	arrivals []Arrival
	total    int           // all arrivals, also forgotten ones
	arrived  chan struct{} // closed and replaced with each arrival
}

// StartReceiver starts a receiver that listens on address and verifies signatures with secret.
func StartReceiver(address, secret string) (*Receiver, error) {
	listener, err := pgtemp.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("receiver: %w", err)
	}
	r := &Receiver{
		secret: secret, url: "http://" + listener.Addr().String() + webhookPath,
		accepted: map[string]bool{}, arrived: make(chan struct{}),
	}
	r.Answer(http.StatusOK)
	mux := http.NewServeMux()
	mux.HandleFunc(webhookPath, r.receive)
	mux.HandleFunc("POST /answer", r.chooseAnswer)
	mux.HandleFunc("GET /{$}", r.show)
	mux.HandleFunc("GET /mails", r.showMails)
	r.server = &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	go func() { _ = r.server.Serve(listener) }() // ends with Close
	return r, nil
}

// Close stops listening.
func (r *Receiver) Close() { _ = r.server.Close() }

// Answer sets the status of the answers that follow.
func (r *Receiver) Answer(status int) {
	r.ReplyBy(func(Arrival) Reply { return Reply{Status: status} })
}

// Redirect makes every following answer a redirect.
func (r *Receiver) Redirect(status int, location string) {
	r.ReplyBy(func(Arrival) Reply { return Reply{Status: status, Location: location} })
}

// Reply is the receiver's reaction to one request.
type Reply struct {
	Status int
	After  time.Duration // how long the answer waits
	Reset  bool          // the connection is reset instead
	// Location is where a redirect leads.
	Location string
}

// ReplyBy makes choose decide the reply to every following request with a valid signature. choose
// is called from several goroutines. The page shows its reply to an empty Arrival.
func (r *Receiver) ReplyBy(choose func(Arrival) Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply = choose
}

// Hang makes every following request wait for its answer until release is called.
func (r *Receiver) Hang() (release func()) {
	hang := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = hang
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hang = nil
		close(hang)
	}
}

// Arrivals returns the arrivals so far, oldest first, and a channel that is closed at the next arrival.
func (r *Receiver) Arrivals() ([]Arrival, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Arrival(nil), r.arrivals...), r.arrived
}

// receive handles one delivery by the rules for receivers. Source: api/interface.md, "Signature" and
// "Delivery and retries".
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
		return
	}
	var envelope struct{ ID, Type string }
	malformed := json.Unmarshal(body, &envelope)
	a := Arrival{
		At: time.Now(), Delivery: req.Header.Get("X-Service-Delivery-Id"), Attempt: req.Header.Get("X-Service-Attempt"),
		EventID: envelope.ID, Type: envelope.Type, Header: req.Header, Body: body, Signature: errors.Join(
			webhook.Verify(r.secret, req.Header.Get(webhook.SignatureHeader), body, time.Now()), malformed),
	}
	reply := r.replyTo(a)
	hang := r.record(&a, reply)
	if req.Method != http.MethodPost {
		a.Status = http.StatusMethodNotAllowed // the sender followed a redirect
	}
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done(): // the sender has gone
		}
	}
	if !reply.wait(req, w) {
		r.writeLog(a, req, nil)
		return
	}
	if reply.Location != "" {
		w.Header().Set("Location", reply.Location)
	}
	there := req.Context().Err() == nil // afterwards, who has the answer may go
	w.WriteHeader(a.Status)
	var answered *time.Time
	if http.NewResponseController(w).Flush() == nil && there {
		now := time.Now()
		answered = &now
	}
	r.writeLog(a, req, answered)
}

// replyTo returns the reply to a request.
func (r *Receiver) replyTo(a Arrival) Reply {
	if a.Signature != nil {
		return Reply{Status: http.StatusUnauthorized}
	}
	r.mu.Lock()
	choose := r.reply
	r.mu.Unlock()
	return choose(a)
}

// wait waits until the answer is due. It reports whether to answer.
func (r Reply) wait(req *http.Request, w http.ResponseWriter) bool {
	select {
	case <-time.After(r.After):
	case <-req.Context().Done(): // the sender has gone
	}
	if !r.Reset {
		return true
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then a close sends a TCP reset
	}
	_ = conn.Close() // the connection may already be closed
	return false
}

// record remembers the arrival with its reply. It returns the channel for which the answer must wait, nil for none.
func (r *Receiver) record(a *Arrival, reply Reply) (hang <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Status, a.Duplicate = reply.Status, r.accepted[a.EventID]
	if a.Status < 300 && r.hang == nil {
		r.accepted[a.EventID] = true
	}
	r.total++
	a.Number = r.total
	if len(r.arrivals) == maxArrivals {
		r.arrivals = r.arrivals[1:]
	}
	r.arrivals = append(r.arrivals, *a)
	close(r.arrived)
	r.arrived = make(chan struct{})
	return r.hang
}

// chooseAnswer serves the page's button: the receiver answers 200 or 500 from now on.
func (r *Receiver) chooseAnswer(w http.ResponseWriter, req *http.Request) {
	status := http.StatusOK
	if req.PostFormValue("status") == "500" {
		status = http.StatusInternalServerError
	}
	r.Answer(status)
	http.Redirect(w, req, "/", http.StatusSeeOther)
}

// show lists the arrivals, newest first, or shows one in full (?show=NUMBER).
func (r *Receiver) show(w http.ResponseWriter, req *http.Request) {
	arrivals, _ := r.Arrivals()
	var shown *Arrival
	for _, a := range arrivals {
		if strconv.Itoa(a.Number) == req.FormValue("show") {
			shown = &a
		}
	}
	newest := arrivals[max(0, len(arrivals)-100):]
	slices.Reverse(newest) // it is a copy
	showPage(w, map[string]any{
		"Arrivals": newest, "Shown": shown, "Total": len(arrivals), "Failing": r.replyTo(Arrival{}).Status >= 300,
	})
}

func showPage(w http.ResponseWriter, content map[string]any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	_ = receiverPage.Execute(w, content) // an error means that the browser has gone
}

// ShowMails makes the page /mails list the mails of a mailbox.
func (r *Receiver) ShowMails(box *mailbox.Mailbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mails = box
}

// showMails lists the mails that the service sent, newest first.
func (r *Receiver) showMails(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	box := r.mails
	r.mu.Unlock()
	var mails []mailbox.Mail
	if box != nil {
		mails = box.Mails("")
		slices.Reverse(mails)
	}
	showPage(w, map[string]any{"ListsMails": true, "Mails": mails})
}

func pretty(body []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return string(body)
	}
	return out.String()
}
