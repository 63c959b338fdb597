package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/checkout/workflows/contract"
)

// MinRetention is how long closed runs stay readable at least.
const MinRetention = 7 * 24 * time.Hour

// NotAllowedError says what Temporal does not let this client make. A hosted Temporal has a
// control plane of its own for that.
type NotAllowedError struct {
	Namespace  string
	Create     bool     // the namespace is missing
	Retention  bool     // the namespace's retention is below MinRetention
	Attributes []string // search attributes that are missing; each is a keyword
	Err        error    // Temporal's answer
}

func (e *NotAllowedError) Error() string {
	what := "add the search attributes " + strings.Join(e.Attributes, ", ")
	switch {
	case e.Create:
		what = "create the namespace"
	case e.Retention:
		what = "raise the namespace's retention"
	}
	return fmt.Sprintf("namespace %s: Temporal does not let this client %s: %v", e.Namespace, what, e.Err)
}

func (e *NotAllowedError) Unwrap() error { return e.Err }

// EnsureNamespace creates the namespace and its search attributes where they are missing, and raises a retention below
// MinRetention. It returns when Temporal takes runs with these attributes. Until ctx ends it repeats a step that fails:
// while Temporal's services find each other or learn of a new namespace, they answer with nearly any error. It returns
// a NotAllowedError at once. namespace must be the one of the Temporal client. Several processes may call it at once.
func (c *Client) EnsureNamespace(ctx context.Context, namespace string) error {
	n := setup{Client: c, namespace: namespace}
	for _, step := range []struct {
		what string
		try  func(context.Context) error
	}{
		{"wait for Temporal", n.healthy},
		{"create the namespace", n.createNamespace},
		{"add the search attributes", n.addAttributes},
		{"wait for the search attributes", n.attributesUsable},
	} {
		if err := repeat(ctx, step.try); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

const (
	setupCallTimeout = 5 * time.Second
	setupPause       = 50 * time.Millisecond
)

// repeat calls try until it succeeds, ctx ends or Temporal does not allow it.
func repeat(ctx context.Context, try func(context.Context) error) error {
	for {
		call, cancel := context.WithTimeout(ctx, setupCallTimeout)
		err := try(call)
		cancel()
		if _, notAllowed := errors.AsType[*NotAllowedError](err); err == nil || notAllowed {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-time.After(setupPause):
		}
	}
}

// setup prepares one namespace.
type setup struct {
	*Client
	namespace string
}

func (s setup) healthy(ctx context.Context) error {
	_, err := s.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

// createNamespace creates the namespace, or raises the retention of the one that is there. It looks first:
// a hosted Temporal refuses the creation of a namespace that exists, too.
func (s setup) createNamespace(ctx context.Context) error {
	there, err := s.Temporal.WorkflowService().DescribeNamespace(
		ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.namespace},
	)
	if _, notFound := errors.AsType[*serviceerror.NamespaceNotFound](err); notFound {
		_, err = s.Temporal.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: s.namespace, Description: "hosted checkout",
			WorkflowExecutionRetentionPeriod: durationpb.New(MinRetention),
		})
		return s.allowed(err, NotAllowedError{Create: true})
	}
	if err != nil || there.Config.WorkflowExecutionRetentionTtl.AsDuration() >= MinRetention {
		return s.allowed(err, NotAllowedError{Create: true})
	}
	_, err = s.Temporal.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: s.namespace,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(MinRetention)},
	})
	return s.allowed(err, NotAllowedError{Retention: true})
}

// addAttributes adds the attributes that are missing.
func (s setup) addAttributes(ctx context.Context) error {
	if s.attributesUsable(ctx) == nil { // a hosted Temporal may refuse to list them
		return nil
	}
	all := attributeNames()
	there, err := s.Temporal.OperatorService().ListSearchAttributes(
		ctx, &operatorservice.ListSearchAttributesRequest{Namespace: s.namespace},
	)
	if err != nil {
		return s.allowed(err, NotAllowedError{Attributes: all})
	}
	missing := slices.DeleteFunc(all, func(name string) bool {
		_, ok := there.CustomAttributes[name]
		return ok
	})
	if len(missing) == 0 {
		return nil
	}
	add := map[string]enumspb.IndexedValueType{}
	for _, name := range missing {
		add[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = s.Temporal.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: s.namespace, SearchAttributes: add,
	})
	return s.allowed(err, NotAllowedError{Attributes: missing})
}

// attributesUsable returns nil when Temporal knows every attribute. It searches runs by each
// attribute, because Temporal refuses names that it has not learnt yet.
func (s setup) attributesUsable(ctx context.Context) error {
	terms := []string{`WorkflowId = "none"`}
	for _, name := range attributeNames() {
		terms = append(terms, "`"+name+"` IS NULL")
	}
	_, err := s.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: s.namespace, Query: strings.Join(terms, " AND "),
	})
	return err
}

func attributeNames() []string {
	var names []string
	for _, key := range contract.SearchAttributes {
		names = append(names, key.GetName())
	}
	slices.Sort(names)
	return names
}

// allowed turns Temporal's refusal of a call that nobody may make here into missing.
func (s setup) allowed(err error, missing NotAllowedError) error {
	if err == nil {
		return nil
	}
	switch serviceerror.ToStatus(err).Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		missing.Namespace, missing.Err = s.namespace, err
		return &missing
	case codes.AlreadyExists: // another process was faster
		return nil
	}
	return err
}
