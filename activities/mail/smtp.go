package mail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/wneessen/go-mail"
)

// ErrRefused means that the mail server refuses a mail for good.
var ErrRefused = errors.New("the mail server refuses the mail")

// SMTP sends mails through a mail server.
type SMTP struct {
	host    string
	options []mail.Option
	from    string
}

// NewSMTP reads the address of a mail server: smtps://user:password@host:465 with TLS from the start, or
// smtp://user:password@host:587, which insists on STARTTLS unless the host is this computer. from is the
// sender's address. Errors never quote the address.
func NewSMTP(address, from string) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("must be smtps://user:password@host:465 or smtp://user:password@host:587")
	}
	s := &SMTP{host: u.Hostname(), from: from}
	port := map[string]int{"smtp": 587, "smtps": 465}[u.Scheme]
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("has a wrong port")
		}
	}
	s.options = []mail.Option{mail.WithPort(port), mail.WithTimeout(sendTimeout)}
	switch ip := net.ParseIP(s.host); {
	case u.Scheme == "smtps":
		s.options = append(s.options, mail.WithSSL())
	case s.host == "localhost" || ip.IsLoopback():
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	default:
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s.options = append(s.options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}
	if _, err := s.message(Message{To: from}); err != nil {
		return nil, errors.New("has a sender that is not an e-mail address")
	}
	_, err = mail.NewClient(s.host, s.options...)
	if err != nil {
		return nil, errors.New("is not understood by the mail library")
	}
	return s, nil
}

func (s *SMTP) message(m Message) (*mail.Msg, error) {
	msg := mail.NewMsg()
	if err := msg.From(s.from); err != nil {
		return nil, err
	}
	if err := msg.To(m.To); err != nil {
		return nil, err
	}
	msg.Subject(m.Subject)
	msg.SetMessageID()
	msg.SetDate()
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office answers
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	return msg, nil
}

// Send gives a mail to the server. It returns ErrRefused when a repeat is useless. Its errors have no
// address of a person.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	msg, err := s.message(m)
	if err != nil {
		return fmt.Errorf("%w: the receiver's address is not understood", ErrRefused)
	}
	client, err := mail.NewClient(s.host, s.options...)
	if err != nil {
		return errors.New("the mail client cannot be made")
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if msg.IsDelivered() {
		return nil // the server has the mail, whatever it said to the end of the connection
	}
	if refused, ok := errors.AsType[*mail.SendError](err); ok {
		// The text of the error may quote the receiver's address.
		if !refused.IsTemp() && refused.ErrorCode() >= 500 {
			return fmt.Errorf("%w: %s, code %d", ErrRefused, refused.Reason, refused.ErrorCode())
		}
		return fmt.Errorf("%s, code %d", refused.Reason, refused.ErrorCode())
	}
	return err
}
