// Package mailbox is a mail server for this computer. It keeps the mails instead of delivering them.
package mailbox

import (
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// most is how many mails a mailbox remembers.
const most = 1000

// Mail is a mail that arrived.
type Mail struct {
	At      time.Time
	To      string
	Subject string
	Text    string
}

// Mailbox is a running mail server.
type Mailbox struct {
	Address string // host:port

	server *smtp.Server
	mu     sync.Mutex
	mails  []Mail
	fail   *smtp.SMTPError
	hangUp bool
}

// Start starts a mail server on address.
func Start(address string) (*Mailbox, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	b := &Mailbox{Address: listener.Addr().String()}
	b.server = smtp.NewServer(b)
	b.server.Domain, b.server.MaxMessageBytes = "localhost", 1<<20
	b.server.ReadTimeout, b.server.WriteTimeout = 30*time.Second, 30*time.Second
	go func() { _ = b.server.Serve(listener) }() // ends with Close
	return b, nil
}

// Close stops the server.
func (b *Mailbox) Close() { _ = b.server.Close() }

// Refuse answers the mails that follow with an SMTP status, such as 451 or 550. With 0 it takes them again.
func (b *Mailbox) Refuse(code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = nil
	if code > 0 {
		b.fail = &smtp.SMTPError{Code: code, Message: "refused as told"}
	}
}

// HangUp makes the server end each connection after its mail, without an answer to what the client says next.
func (b *Mailbox) HangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangUp = true
}

// Mails returns the mails to an address, oldest first; all of them for "".
func (b *Mailbox) Mails(to string) []Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.mails), func(m Mail) bool { return to != "" && m.To != to })
}

// NewSession begins a connection.
func (b *Mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{box: b, conn: c}, nil
}

type session struct {
	box   *Mailbox
	conn  *smtp.Conn
	to    string
	taken bool
}

func (s *session) Mail(string, *smtp.MailOptions) error      { return nil }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { s.to = to; return nil }
func (s *session) Logout() error                             { return nil }

// Reset answers the client's RSET.
func (s *session) Reset() {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if s.box.hangUp && s.taken {
		_ = s.conn.Conn().Close() // as told
	}
}

// Data takes one mail.
func (s *session) Data(r io.Reader) error {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if s.box.fail != nil {
		return s.box.fail
	}
	got, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body := got.Body
	if got.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil {
		return err
	}
	if len(s.box.mails) == most {
		s.box.mails = s.box.mails[1:]
	}
	s.box.mails = append(s.box.mails, Mail{At: time.Now(), To: s.to, Subject: subject, Text: string(text)})
	s.taken = true
	return nil
}
