package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// operatorCase is one call of Temporal that an operator may make by mistake, in its UI or on its command line.
type operatorCase struct {
	Name, Why string
	Do        string   // signal, update, query or start
	To        string   // ‹session›, ‹delivery› or ‹ended›; of a start its workflow id
	Message   string   // its name; of a start the workflow type
	Payloads  []string // in the notation of corpusNotation
	Encoding  string   // json/plain when left out
	Refused   string   // part of the error; "" when Temporal takes it
	Ends      string   // how a started run ends
}

// TestCorpus_NoOperatorBreaksASession makes every call of testdata/corpus/operator on the real server: no run fails
// that did not begin with it, the session stays pending, answers, and can be paid at the end.
func TestCorpus_NoOperatorBreaksASession(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, madeUp) // runs without rows are what the invariants are there to find
	m := e2e.NewMerchant(t, stack)
	w := &corpusWorld{stack: stack, own: m, temporal: e2e.TemporalClient(t, stack), values: map[string]string{"merchant": m.ID}}
	w.values["ended"], w.values["session"] = m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+w.values["ended"]+"/expire", "")
	registration, _ := register(m)
	w.values["delivery"] = testDelivery(m, registration)
	cases := loadCorpus[category[operatorCase]](t, "operator")["operator"].Cases
	require.GreaterOrEqual(t, len(cases), 25)
	for _, c := range cases {
		require.NotEmpty(t, c.Why, c.Name)
		c.Encoding = cmp.Or(c.Encoding, converter.MetadataEncodingJSON)
		t.Run(c.Name, func(t *testing.T) { w.misuse(t, c) })
	}
	m.Complete(w.values["session"])
	require.Equal(t, "expired", m.Session(w.values["ended"]).Field("status"))
}

func (w *corpusWorld) misuse(t *testing.T, c operatorCase) {
	var args []any
	for _, text := range c.Payloads {
		args = append(args, converter.NewRawValue(&commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(c.Encoding)}, Data: []byte(w.say(t, text, nil)),
		}))
	}
	err := w.operate(t, c, args)
	if c.Refused == "" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, c.Refused)
	}
	for _, name := range []string{"session", "delivery"} {
		run := must.Get(w.temporal.DescribeWorkflowExecution(t.Context(), w.values[name], ""))(t)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, run.GetWorkflowExecutionInfo().GetStatus(), name)
	}
	got := queried[contract.SessionState](t, w.temporal, w.values["session"], contract.QueryStatus) // no worker is stuck
	require.Equal(t, contract.SessionState{Status: checkout.StatusPending}, got)
	require.Equal(t, "pending", w.own.Session(w.values["session"]).Field("status"))
	require.Zero(t, e2e.Query[int](t, w.stack, `SELECT count(*) FROM transaction WHERE merchant_id = $1`, w.own.ID), "no money moves")
}

// queried returns the answer of a run to a query.
func queried[T any](t *testing.T, c client.Client, id, query string) (answer T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, must.Get(c.QueryWorkflow(ctx, id, "", query))(t).Get(&answer))
	return answer
}

func (w *corpusWorld) operate(t *testing.T, c operatorCase, args []any) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	to := w.say(t, c.To, nil)
	switch c.Do {
	case "signal":
		var arg any
		if len(args) > 0 {
			arg = args[0]
		}
		return w.temporal.SignalWorkflow(ctx, to, "", c.Message, arg)
	case "update":
		handle, err := w.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: to, UpdateName: c.Message, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return handle.Get(ctx, nil)
	case "query":
		_, err := w.temporal.QueryWorkflow(ctx, to, "", c.Message, args...)
		return err
	case "start":
		return w.startWrongly(ctx, t, c, to, args)
	}
	return fmt.Errorf("%q is no call", c.Do)
}

// startWrongly starts a run, and terminates it when it would wait for ever.
func (w *corpusWorld) startWrongly(ctx context.Context, t *testing.T, c operatorCase, id string, args []any) error {
	queue := contract.TaskQueueCheckout
	if c.Message == contract.TypeWebhookDelivery {
		queue = contract.TaskQueueWebhooks
	}
	run, err := w.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: queue, WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}, c.Message, args...)
	if err != nil {
		return err
	}
	if c.Ends == "Running" { // nobody knows what to do with it; an operator ends it
		return w.temporal.TerminateWorkflow(ctx, id, run.GetRunID(), "a mistake")
	}
	e2e.Await(t, "it ends: "+c.Ends, 10*time.Second, func() bool {
		return e2e.StatusOf(t, w.temporal, id).String() == c.Ends
	})
	return nil
}

// configurationCase is what differs from a good environment, and the settings that the message must name.
type configurationCase struct {
	Name, Why string
	Command   string            // api when left out
	Set       map[string]string // NAME: value; ‹free port› and the like as in corpusWorld.say
	Unset     []string
	Names     []string // all of Set and Unset when left out
}

// TestCorpus_NothingStartsWithAWrongConfiguration starts the command with every environment of
// testdata/corpus/configuration: it ends at once with an error that names the wrong settings without quoting them.
func TestCorpus_NothingStartsWithAWrongConfiguration(t *testing.T) {
	t.Parallel()
	cases := loadCorpus[category[configurationCase]](t, "configuration")["configuration"].Cases
	require.GreaterOrEqual(t, len(cases), 30)
	for _, c := range cases {
		require.NotEmpty(t, c.Why, c.Name)
		c.Command = cmp.Or(c.Command, "api")
		if c.Names == nil {
			c.Names = append(slices.Sorted(maps.Keys(c.Set)), c.Unset...)
		}
		t.Run(c.Name, func(t *testing.T) { c.refused(t) })
	}
}

func (c configurationCase) refused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), e2e.LeastPatience)
	defer cancel()
	settings := append(e2e.Shared.Environment(), // whose addresses are taken
		"CHECKOUT_API_ADDRESS=127.0.0.1:0", "CHECKOUT_PAGE_ADDRESS=127.0.0.1:0", "CHECKOUT_DASHBOARD_ADDRESS=127.0.0.1:0")
	settings = slices.DeleteFunc(settings, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return slices.Contains(c.Unset, name)
	})
	for name, value := range c.Set {
		settings = append(settings, name+"="+value) // the last of a name counts
	}
	var out e2e.Words // the test process logs to it too
	err := app.Main(ctx, []string{c.Command}, settings, &out, &out)
	require.NoError(t, ctx.Err(), "it runs: %s", &out)
	require.Error(t, err)
	require.Equal(t, 1, app.ExitStatus(err))
	said := out.String() + err.Error()
	for _, name := range c.Names {
		require.Contains(t, said, name)
	}
	require.NotContains(t, said, "canary", "values may be secrets")
}
