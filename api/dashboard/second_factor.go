package dashboard

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"image/png"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"example.com/checkout/api/action"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Codes of an app. Source: RFC 6238, with the defaults that apps know.
const (
	codeSeconds = 30
	codeSkew    = 1 // steps that a clock may differ
	secretBytes = 20
)

// Recovery codes. Each has 80 random bits, so its SHA-256 cannot be searched.
const (
	recoveryCodes     = 10
	recoveryCodeBytes = 10
)

// bucketCode bounds the guesses of one account's codes, from all addresses. Whoever guesses knows the
// password already. A browser in which the account was signed in before has its own bucket, so that such a
// person cannot lock the member out.
const bucketCode = "second_factor"

// checkCode looks for the time step of a typed code at the time now.
func checkCode(code string, now time.Time) storage.CodeCheck {
	return func(secret []byte, after int64) (int64, bool) {
		key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
		middle := now.Unix() / codeSeconds
		for step := max(middle-codeSkew, after+1); step <= middle+codeSkew; step++ {
			want, err := hotp.GenerateCode(key, uint64(step)) //nolint:gosec // G115: a time after 1970
			if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
				return step, true
			}
		}
		return 0, false
	}
}

// plainCode removes what people and pages write between the characters of a code.
func plainCode(typed string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(typed))
}

var recoveryEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newRecoveryCodes returns codes in groups of four characters, and their hashes.
func newRecoveryCodes() (codes []string, hashes [][]byte) {
	for range recoveryCodes {
		var b [recoveryCodeBytes]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		c := recoveryEncoding.EncodeToString(b[:])
		codes = append(codes, c[:4]+"-"+c[4:8]+"-"+c[8:12]+"-"+c[12:])
		hashes = append(hashes, checkout.HashToken(c))
	}
	return codes, hashes
}

// factorFault checks the answer of a passkey, a code of the member's app or a recovery code, and uses it up. It
// returns "" when it is right, else a fault. The audit log notes a wrong one, because its sender knows the password.
// c is the ceremony in which a passkey may answer.
func (s *server) factorFault(r *http.Request, m checkout.Member, c ceremony) (fault string, err error) {
	code, passkey := plainCode(r.PostFormValue("code")), r.PostFormValue("passkey") != ""
	if code == "" && !passkey {
		return "Use a passkey, or enter a code of your app or a recovery code.", nil
	}
	ok, err := s.mayGuessCode(r, m)
	if err != nil {
		return "", err
	}
	if !ok {
		return "There were too many attempts. Wait a minute, then try again.", nil
	}
	if passkey {
		return s.passkeyFault(r, m, c)
	}
	ok, err = s.useCode(r, m, code)
	if err != nil || ok {
		return "", err
	}
	return "That code is not right, or it was used already. Wait for the next one.", s.Store.Audit(
		r.Context(), action.Entry(r, m.MerchantID, m.Email, "member.code_refused", m.ID, "at "+r.URL.Path),
	)
}

// mayGuessCode takes a token from the bucket of a member's codes, see bucketCode.
func (s *server) mayGuessCode(r *http.Request, m checkout.Member) (bool, error) {
	hash, err := s.Store.MemberPassword(r.Context(), m.MerchantID, m.ID)
	if err != nil {
		return false, err
	}
	got, err := s.Store.Allow(r.Context(),
		storage.Bucket{Owner: s.guesser(r, m.ID, hash), Kind: bucketCode, Rate: accountRate})
	return got.OK, err
}

func (s *server) useCode(r *http.Request, m checkout.Member, code string) (ok bool, err error) {
	if len(code) == otp.DigitsSix.Length() {
		ok, err = s.Store.UseCode(r.Context(), m.MerchantID, m.ID, checkCode(code, time.Now()))
	} else {
		ok, err = s.Store.UseRecoveryCode(r.Context(), m.MerchantID, m.ID, checkout.HashToken(code),
			action.Entry(r, m.MerchantID, m.Email, "member.recovery_code_used", m.ID, "recovery code used at "+r.URL.Path))
	}
	if errors.Is(err, checkout.ErrNotFound) {
		return false, nil
	}
	return ok, err
}

// A browser that gave the right password has this cookie until it gives a code.
const (
	halfCookie   = "half"
	halfLifetime = 10 * time.Minute
)

// halfToken returns the value of the half cookie. The password's hash signs it, so that a new password
// ends it and nothing is stored.
func halfToken(m checkout.Member, passwordHash string, until int64) string {
	text := fmt.Sprintf("%s.%s.%d", m.MerchantID, m.ID, until)
	mac := hmac.New(sha256.New, []byte(passwordHash))
	mac.Write([]byte("a browser that gave the password " + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// half returns the member who gave the password in this browser, and the password's hash. It returns
// checkout.ErrNotFound when nobody did lately.
func (s *server) half(r *http.Request) (m checkout.Member, passwordHash string, err error) {
	cookie, err := r.Cookie(s.cookieName(halfCookie))
	if err != nil {
		return m, "", checkout.ErrNotFound
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 4 || !checkout.IsID(checkout.PrefixMember, parts[1]) {
		return m, "", checkout.ErrNotFound
	}
	until, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || time.Now().Unix() > until {
		return m, "", checkout.ErrNotFound
	}
	if m, err = s.Store.Member(r.Context(), parts[0], parts[1]); err != nil {
		return m, "", err
	}
	if passwordHash, err = s.Store.MemberPassword(r.Context(), m.MerchantID, m.ID); err != nil {
		return m, "", err
	}
	if !hmac.Equal([]byte(halfToken(m, passwordHash, until)), []byte(cookie.Value)) {
		return m, "", checkout.ErrNotFound
	}
	return m, passwordHash, nil
}

// askForCode leads a browser that gave the right password to the page that asks for a code.
func (s *server) askForCode(w http.ResponseWriter, r *http.Request, m checkout.Member, hash, next string) {
	token := halfToken(m, hash, time.Now().Add(halfLifetime).Unix())
	s.setCookie(w, halfCookie, token, int(halfLifetime/time.Second))
	http.Redirect(w, r, "/signin/code?"+url.Values{"next": {next}}.Encode(), http.StatusSeeOther)
}

// codePage asks for a code after the password.
type codePage struct {
	Next, Fault string
	Who         checkout.Member
}

// showSignInCode serves GET /signin/code.
func (s *server) showSignInCode(w http.ResponseWriter, r *http.Request) error {
	m, _, err := s.half(r)
	if failure.KindOf(err) == failure.NotFound {
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if err == nil {
		s.renderOpen(w, r, http.StatusOK, "signin_code", "Sign in", codePage{Next: r.URL.Query().Get("next"), Who: m})
	}
	return err
}

// signInWithCode serves POST /signin/code, the second step of signing in.
func (s *server) signInWithCode(w http.ResponseWriter, r *http.Request) error {
	m, hash, err := s.half(r)
	if failure.KindOf(err) == failure.NotFound {
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if err != nil {
		return err
	}
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), m.Email); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}
	fault, err := s.factorFault(r, m, s.secondStep(r))
	if err != nil {
		return err
	}
	next := safeNext(r.PostFormValue("next"))
	if fault != "" {
		s.renderOpen(w, r, http.StatusUnprocessableEntity, "signin_code", "Sign in", codePage{next, fault, m})
		return nil
	}
	s.setCookie(w, halfCookie, "", -1)
	return s.startSession(w, r, m, hash, next)
}

// factorPage shows a new secret, which the person's app must read.
type factorPage struct {
	Picture template.URL // data: address of the QR code; "" when the app has read it
	Secret  string       // in groups, for typing
	Fault   string
}

const factorTitle = "Turn the second factor on"

// startFactor serves POST /account/second_factor. It needs the password: somebody who found an open browser
// could otherwise lock its owner out. Only its answer shows the secret: another page would show it to
// whoever has stolen the session.
func (s *server) startFactor(v visit) (answer, error) {
	if v.Member.App {
		return goTo("/account", "")
	}
	page, err := s.unconfirmed(v, confirmPage{
		Text: "Afterwards you sign in with your password and with a code of an app on your phone.", Button: "Continue",
		Back: "/account",
	})
	if page != nil || err != nil {
		return orNone(page), err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	if err := s.Store.StartSecondFactor(v.Context(), v.MerchantID(), v.Member.ID, secret); err != nil {
		return answer{}, err
	}
	p, err := newFactorPage(v, secret)
	if err != nil {
		return answer{}, err
	}
	return show("second_factor", factorTitle, p)
}

// showFactor serves GET /account/second_factor, for a browser that goes back or repeats its last address.
func (s *server) showFactor(visit) (answer, error) { return goTo("/account", "") }

func newFactorPage(v visit, secret []byte) (factorPage, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer:      strings.ReplaceAll(v.Merchant, ":", " "), // apps split the label at the colon
		AccountName: v.Member.Email, Secret: secret, Period: codeSeconds,
	})
	if err != nil {
		return factorPage{}, fmt.Errorf("second factor: %w", err)
	}
	const pixels = 240
	picture, err := key.Image(pixels, pixels)
	if err != nil {
		return factorPage{}, fmt.Errorf("draw the second factor: %w", err)
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		return factorPage{}, fmt.Errorf("draw the second factor: %w", err)
	}
	return factorPage{
		Picture: template.URL("data:image/png;base64," + //nolint:gosec // G203: drawn here
			base64.StdEncoding.EncodeToString(encoded.Bytes())),
		Secret: inGroups(key.Secret()),
	}, nil
}

// inGroups puts a space after every four characters.
func inGroups(text string) string {
	var b strings.Builder
	for i, c := range text {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// confirmFactor serves POST /account/second_factor/code. The first code turns the second factor on, and the
// page that follows shows the recovery codes.
func (s *server) confirmFactor(v visit) (answer, error) {
	if ok, err := s.mayGuessCode(v.Request, v.Member); err != nil {
		return answer{}, err
	} else if !ok {
		return answer{}, errGuesses
	}
	codes, hashes := newRecoveryCodes()
	made, err := s.made(v, setOfCodes(v, hashes), strings.Join(codes, "\n"), pageOfCodes, func() error {
		return s.Store.ConfirmSecondFactor(
			v.Context(), v.MerchantID(), v.Member.ID, checkCode(plainCode(v.PostFormValue("code")), time.Now()), hashes,
			v.browser, v.auditBoth("member.second_factor_on", v.Member.ID, "second factor: off → on"),
		)
	})
	if !errors.Is(err, checkout.ErrNotFound) {
		return made, err
	}
	_, err = s.Store.StartedSecondFactor(v.Context(), v.MerchantID(), v.Member.ID)
	if errors.Is(err, checkout.ErrNotFound) {
		return goTo("/account", "")
	}
	if err != nil {
		return answer{}, err
	}
	return refuse("second_factor", factorTitle, factorPage{
		Fault: "That code is not right. Look at the clock of your phone, and wait for the next code.",
	})
}

// setOfCodes names one set of recovery codes. Two tabs may make two sets of which only one is stored, and a
// tab must not show the codes of the other.
func setOfCodes(v visit, hashes [][]byte) string {
	return v.Member.ID + "-" + hex.EncodeToString(hashes[0][:8])
}

// pageOfCodes returns the address of the page that shows a set of recovery codes.
func pageOfCodes(set string) string {
	return "/account/recovery_codes?" + url.Values{"set": {set}}.Encode()
}

// showRecoveryCodes serves GET /account/recovery_codes, once for each set.
func (s *server) showRecoveryCodes(v visit) (answer, error) {
	codes, err := s.Store.TakeReveal(v.Context(), v.reveal(v.URL.Query().Get("set")))
	if err != nil {
		return gone(err, "/account")
	}
	return show("recovery_codes", "Your recovery codes", strings.Split(codes, "\n"))
}

var factorOff = notice("second_factor_off", "Codes of your app are not accepted any more.")

// removeFactor serves POST /account/second_factor/remove.
func (s *server) removeFactor(v visit) (answer, error) {
	if !v.Member.App {
		return goTo("/account", nothingChanged)
	}
	text := "Afterwards everybody who knows your password can sign in as you."
	if v.Member.Passkeys > 0 {
		text = "Codes of your app will not be accepted any more. Your passkeys and recovery codes stay."
	}
	page, err := s.unconfirmed(v, confirmPage{
		Text: text, Button: "Turn it off", Back: "/account",
	})
	if page != nil || err != nil {
		return orNone(page), err
	}
	err = s.Store.RemoveSecondFactor(v.Context(), v.MerchantID(), v.Member.ID,
		v.auditBoth("member.second_factor_off", v.Member.ID, "second factor: on → off"))
	if err != nil {
		return answer{}, err
	}
	return goTo("/account", factorOff)
}
