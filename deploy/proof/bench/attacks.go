package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// alone names the phases without an attack.
const alone = "alone"

// attacks measures the requests of one merchant, alone and beside another one who asks for more
// than a fair share, with the limits of production. The two phases take turns, because the
// machine's other work changes with time.
func attacks(flags *flag.FlagSet) func(context.Context) (report, error) {
	period := flags.Duration("for", 15*time.Second, "how long each phase is measured")
	rate := flags.Int("rate", 20, "requests a second of the merchant who is measured")
	rounds := flags.Int("rounds", 3, "how often each phase is measured")
	only := flags.String("only", "", "measure only the attacks whose names hold this")
	return func(ctx context.Context) (report, error) {
		r, err := newRig(ctx, devstack.Options{Env: []string{
			"CHECKOUT_TEST_RATE_LIMIT=25", "CHECKOUT_PAGE_RATE_LIMIT=20", "CHECKOUT_DASHBOARD_RATE_LIMIT=20",
			"CHECKOUT_TRUSTED_PROXIES=127.0.0.0/8",
		}})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		a := &attacker{rig: r}
		if err := a.prepare(ctx); err != nil {
			return report{}, err
		}
		_, key, err := devstack.AddMerchant(ctx, r.store, "Neighbour", checkout.ModeTest)
		if err != nil {
			return report{}, err
		}
		var figures []figure
		memory, err := r.memoryUnder(ctx, func() (err error) {
			figures, err = measure(a.attacks(*only), *rounds, func(of attack) ([]time.Duration, error) {
				latencies, err := r.beside(ctx, of, key, *rate, *period)
				return latencies, errors.Join(err, ctx.Err())
			})
			return err
		})
		if err != nil {
			return report{}, err
		}
		worst := 0.0
		for _, s := range figures[len(figures)-1].Series {
			worst = max(worst, s.median())
		}
		return report{
			Parts:  []part{{Of: "another merchant's GET", Figures: figures}, memory},
			Result: fmt.Sprintf("The worst p99 beside an attack is %.1f times that alone.", worst),
		}, nil
	}
}

// attacks returns the attacks whose names contain only.
func (a *attacker) attacks(only string) []attack {
	all := []attack{
		{"600 connections of one key", 600, a.list},
		{"60 that guess passwords", 60, a.guess},
		{"80 that upload logos", 80, a.upload},
		{"20 that ask why a signature is wrong", 20, a.verify},
		{"100 that ask what needs no key", 100, a.open},
	}
	return slices.DeleteFunc(all, func(of attack) bool { return !strings.Contains(of.name, only) })
}

// measure measures each phase in each round, and the phase alone once more at the end.
func measure(all []attack, rounds int, beside func(attack) ([]time.Duration, error)) ([]figure, error) {
	ways := []*way{{name: alone}}
	for _, of := range all {
		ways = append(ways, &way{name: of.name})
	}
	add := func(w *way, of attack) error {
		took, err := beside(of)
		w.add(took, time.Second, 0, nil)
		return err
	}
	nobody := attack{name: alone, request: func(context.Context) *http.Request { return nil }}
	for range rounds {
		for i, of := range append([]attack{nobody}, all...) {
			if err := add(ways[i], of); err != nil {
				return nil, err
			}
		}
	}
	if err := add(ways[0], nobody); err != nil {
		return nil, err
	}
	return besides(ways), nil
}

// besides returns the figures of the phases. The first phase is alone; it is measured before and
// after each round. The last figure is p99 as a multiple of the p99 alone in the same round.
func besides(ways []*way) []figure {
	figures := []figure{{Name: "n"}, {Name: "p50", Unit: "ms"}, {Name: "p99", Unit: "ms"}}
	times := figure{Name: "p99 / alone", Goal: &goal{Value: 2}}
	for _, w := range ways {
		for i, values := range [][]float64{{float64(w.count)}, w.p50, w.p99} {
			figures[i].Series = append(figures[i].Series, series{w.name, values})
		}
		if w == ways[0] {
			continue
		}
		var of []float64
		for i, p99 := range w.p99 {
			of = append(of, 2*p99/(ways[0].p99[i]+ways[0].p99[i+1]))
		}
		times.Series = append(times.Series, series{w.name, of})
	}
	return append(figures, times)
}

// attack is a series of requests, sent as fast as they are answered.
type attack struct {
	name        string
	connections int
	request     func(context.Context) *http.Request
}

// beside measures the neighbour's requests during an attack.
func (r *rig) beside(
	ctx context.Context, of attack, key string, rate int, period time.Duration,
) ([]time.Duration, error) {
	fmt.Fprintf(os.Stderr, "%s: measuring for %s\n", of.name, period)
	attacking, stop := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: of.connections}, CheckRedirect: stay}
	var attackers, asking sync.WaitGroup
	for range of.connections {
		attackers.Go(func() {
			for attacking.Err() == nil {
				discard(client, of.request(attacking))
			}
		})
	}

	time.Sleep(2 * time.Second) // until all attackers are active
	var (
		mu   sync.Mutex
		took []time.Duration
		bad  error
	)
	neighbour := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: rate}}
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for end := time.Now().Add(period); time.Now().Before(end) && ctx.Err() == nil; <-ticker.C {
		asking.Go(func() {
			began := time.Now()
			status := discard(neighbour, get(ctx, r.stack.APIURL()+"/v1/checkout", "Authorization", "Bearer "+key))
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(began)); status != http.StatusOK {
				bad = fmt.Errorf("%s: the neighbour is answered %d", of.name, status)
			}
		})
	}

	asking.Wait()
	stop()
	attackers.Wait()
	return took, bad
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// discard sends a request and returns the status of its answer, 0 for none.
func discard(client *http.Client, r *http.Request) int {
	answer, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// get returns a GET request; header alternates names and values.
func get(ctx context.Context, url string, header ...string) *http.Request {
	return send(ctx, http.MethodGet, url, nil, header...)
}

func send(ctx context.Context, method, url string, body []byte, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: the addresses are the stack's own
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return r
}

// attacker is the demo merchant.
type attacker struct {
	*rig

	cookie   string // the owner's session cookie
	form     []byte // a form with a logo
	formType string
	question []byte // a question about a signature
}

// prepare signs the owner in, and makes the largest accepted logo and the hardest accepted
// question.
func (a *attacker) prepare(ctx context.Context) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}

	at := a.stack.DashboardURL()
	owner := &http.Client{Jar: jar, CheckRedirect: stay}
	credentials := url.Values{"email": {devstack.DemoOwner}, "password": {a.stack.Demo.Password}}.Encode()
	discard(
		owner,
		send(ctx, http.MethodPost, at+"/signin", []byte(credentials), "Content-Type", "application/x-www-form-urlencoded"),
	)
	u, err := url.Parse(at)
	if err != nil {
		return err
	}

	for _, c := range jar.Cookies(u) {
		a.cookie += c.Name + "=" + c.Value + "; "
	}
	if a.cookie == "" {
		return fmt.Errorf("the owner of the demo cannot sign in")
	}

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	logo, err := w.CreateFormFile("logo", "logo.png")
	if err != nil {
		return err
	}
	if err := png.Encode(logo, image.NewNRGBA64(image.Rect(0, 0, 1000, 1000))); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}

	a.form, a.formType = form.Bytes(), w.FormDataContentType()
	a.question, err = json.Marshal(map[string]string{
		"header": webhook.Sign(
			[]byte("whsec_unknown"), time.Now(), nil,
		), "body": strings.Repeat("[1]", 10_000), "computed": strings.Repeat("ab", 32),
	})
	if err != nil {
		return err
	}
	return a.register(ctx)
}

// register makes as many registrations as are allowed, each with two secrets.
func (a *attacker) register(ctx context.Context) error {
	for i := range webhook.MaxEndpoints - 1 { // the demo merchant has one already
		owner := checkout.Owner{MerchantID: a.stack.Demo.MerchantID, Mode: checkout.ModeTest}
		e, err := a.store.CreateEndpoint(ctx, webhook.Endpoint{
			Ref: owner.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: fmt.Sprintf("https://shop.example/%d", i),
			Events: webhook.EventTypes, Status: webhook.EndpointDisabled, Secret: webhook.NewSecret(),
		})
		if err != nil {
			return err
		}
		if _, err := a.store.RotateSecret(ctx, e.Ref, webhook.NewSecret(), webhook.MaxRotationOverlap); err != nil {
			return err
		}
	}
	return nil
}

func (a *attacker) list(ctx context.Context) *http.Request {
	return get(ctx, a.stack.APIURL()+"/v1/checkout", "Authorization", "Bearer "+a.stack.Demo.APIKey)
}

// guess sends each request from another network.
func (a *attacker) guess(ctx context.Context) *http.Request {
	form := url.Values{"email": {rand.Text() + "@shop.example"}, "password": {"a wrong password"}}.Encode()
	return send(ctx, http.MethodPost, a.stack.DashboardURL()+"/signin", []byte(form),
		"Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", someNetwork())
}

func (a *attacker) upload(ctx context.Context) *http.Request {
	return send(ctx, http.MethodPost, a.stack.DashboardURL()+"/m/"+a.stack.Demo.MerchantID+"/test/settings/brand", a.form,
		"Content-Type", a.formType, "Cookie", a.cookie, "X-Forwarded-For", someNetwork())
}

func (a *attacker) verify(ctx context.Context) *http.Request {
	return send(ctx, http.MethodPost, a.stack.APIURL()+"/v1/webhooks/verify", a.question,
		"Content-Type", "application/json", "Authorization", "Bearer "+a.stack.Demo.APIKey)
}

// open requests, by turns, everything that needs no key.
func (a *attacker) open(ctx context.Context) *http.Request {
	addresses := []string{
		a.stack.APIURL() + "/readyz", a.stack.DashboardURL() + "/invitation/x", a.stack.DashboardURL() + "/test/",
		a.stack.PageURL() + "/sandbox/3ds/" + checkout.NewID(checkout.PrefixTransaction),
	}
	return get(ctx, addresses[int(a.orders.Add(1))%len(addresses)], "Cookie", "member="+rand.Text())
}

// someNetwork returns an address in one of the 65,536 networks of one attacker.
func someNetwork() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("2001:db8:1:%x::1", int(b[0])<<8|int(b[1]))
}
