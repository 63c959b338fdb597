package apart

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/authority"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
)

// soonOver is the time that the second client certificate is valid.
const soonOver = 20 * time.Second

// connectionAge is how long a connection to Temporal lives.
const connectionAge = 3 * time.Second

// TestSecuredTemporal runs the service on a Temporal that asks for a client certificate and a token. Then
// the certificate is replaced by one that soon expires, and that by a third, and no request fails.
func TestSecuredTemporal(t *testing.T) {
	t.Parallel()
	s := newSecurity(t)
	stack := e2e.OwnStack(t, devstack.Options{
		Namespace: "prod.a1b2c", Security: &s.TemporalSecurity, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"},
	})
	requireRefused(t, stack)
	m, c := e2e.NewMerchant(t, stack), e2e.TemporalClient(t, stack)

	id := m.Complete(m.Create(e2e.Terms))
	m.Arrivals(2, 20*time.Second)
	delivery := e2e.DeliveryOf(t, stack, id, "checkout.completed")
	m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
	must.Get(c.WorkflowService().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: stack.Temporal.Namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: delivery},
		Reason: "test", WorkflowTaskFinishEventId: 4, RequestId: delivery,
	}))(t)
	m.Arrivals(3, 20*time.Second)

	expires := time.Now().Add(soonOver)
	s.renew(t, soonOver)
	time.Sleep(2 * connectionAge) // every connection has the second certificate
	m.Sell(e2e.CardSucceeds)
	s.renew(t, time.Hour)
	made := 0
	for end := expires.Add(2 * connectionAge); time.Now().Before(end); made++ {
		m.Sell(e2e.CardSucceeds)
		time.Sleep(200 * time.Millisecond)
	}
	require.Positive(t, made)
	t.Logf("%d sessions were created and paid while the certificate changed", made)

	pending := m.Create(e2e.Terms)
	require.NoError(t, c.TerminateWorkflow(t.Context(), pending, "", "a test"))
	e2e.AwaitRun(t, c, pending, "Reconcile starts the session again", 60*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
}

// requireRefused requires that Temporal refuses a client that lacks the certificate or the token.
func requireRefused(t *testing.T, stack *devstack.Stack) {
	options := must.Get(stack.Temporal.ClientOptions())(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	withoutToken := options
	withoutToken.Credentials = nil
	require.ErrorContains(t, must.Err(countRuns(ctx, t, withoutToken)), "Request unauthorized")

	must.Get(countRuns(ctx, t, options))(t)
	options.ConnectionOptions.TLS = options.ConnectionOptions.TLS.Clone()
	options.ConnectionOptions.TLS.GetClientCertificate = nil
	require.Error(t, must.Err(countRuns(ctx, t, options)), "the server ends the connection, with or without an alert")
}

func countRuns(ctx context.Context, t *testing.T, options client.Options) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	c := must.Get(client.NewLazyClient(options))(t)
	defer c.Close()
	return c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{})
}

// security is a Temporal's, with a client whose certificate is in the directory that current points to.
type security struct {
	devstack.TemporalSecurity

	authority *authority.Authority
	current   string
}

func newSecurity(t *testing.T) *security {
	s := &security{authority: authority.New(t), current: filepath.Join(t.TempDir(), "current")}
	server := s.authority.Issue(t, "127.0.0.1", time.Hour)
	require.NoError(t, os.Symlink(s.authority.Issue(t, "checkout", time.Hour), s.current))
	token, keys := newToken(t)
	s.TemporalSecurity = devstack.TemporalSecurity{
		CA: s.authority.File, Certificate: filepath.Join(server, authority.CertificateFile),
		Key: filepath.Join(server, authority.KeyFile), TokenKeys: keys, ConnectionAge: connectionAge,
		Client: []string{
			"TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + s.authority.File,
			"TEMPORAL_TLS_CLIENT_CERT_PATH=" + filepath.Join(s.current, authority.CertificateFile),
			"TEMPORAL_TLS_CLIENT_KEY_PATH=" + filepath.Join(s.current, authority.KeyFile),
			"TEMPORAL_API_KEY_FILE=" + token,
		},
	}
	return s
}

// renew replaces the client's certificate and key at once, as Kubernetes does: by another link.
func (s *security) renew(t *testing.T, validFor time.Duration) {
	next := s.current + ".next"
	require.NoError(t, os.Symlink(s.authority.Issue(t, "checkout", validFor), next))
	require.NoError(t, os.Rename(next, s.current))
}

// newToken returns a file with a token that may do everything, and a file with the key to check it.
func newToken(t *testing.T) (token, keys string) {
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "one"}}, nil)
	require.NoError(t, err)
	text := must.Get(jwt.Signed(signer).Claims(map[string]any{
		"sub": "checkout", "exp": time.Now().Add(time.Hour).Unix(), "permissions": []string{"system:admin", "prod.a1b2c:admin"},
	}).Serialize())(t)
	set := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: private.Public(), KeyID: "one", Algorithm: string(jose.ES256), Use: "sig"},
	}}))(t)
	dir := t.TempDir()
	token, keys = filepath.Join(dir, "token"), filepath.Join(dir, "keys.json")
	require.NoError(t, os.WriteFile(token, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(keys, set, 0o600))
	return token, keys
}
