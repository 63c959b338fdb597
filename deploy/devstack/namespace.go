package devstack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// frontend is a connection to Temporal's frontend.
type frontend struct {
	*grpc.ClientConn
	workflow  workflowservice.WorkflowServiceClient
	operator  operatorservice.OperatorServiceClient
	namespace string
}

// ensureNamespace waits until the server answers. It makes the namespace and its search attributes
// if they are missing, and waits until every service of the server knows them.
func ensureNamespace(ctx context.Context, address string, o TemporalOptions) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	f := frontend{
		ClientConn: conn,
		workflow:   workflowservice.NewWorkflowServiceClient(conn),
		operator:   operatorservice.NewOperatorServiceClient(conn),
		namespace:  o.Namespace,
	}

	for _, step := range []struct {
		what string
		try  func(context.Context) error
	}{
		{"wait for the frontend", f.healthy},
		{"register namespace " + o.Namespace, func(ctx context.Context) error { return f.register(ctx, o.Retention) }},
		{"add search attributes", func(ctx context.Context) error { return f.addAttributes(ctx, o.SearchAttributes) }},
		{"wait for the search attributes", func(ctx context.Context) error {
			return f.attributesUsable(ctx,
				o.SearchAttributes)
		}},
	} {
		if err := retry(ctx, step.try); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// stepTimeout is more than any step of the start needs.
const stepTimeout = 3 * time.Minute

// retry repeats a step of the start until it succeeds, for stepTimeout at most. It repeats after
// every error: while the server's services find each other or learn of a new namespace, they answer
// with nearly any code.
func retry(ctx context.Context, try func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, stepTimeout)
	defer stop()
	for {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(call)
		cancel()
		if err == nil {
			return nil
		}
		if pauseErr := pause(ctx, 50*time.Millisecond); pauseErr != nil {
			return fmt.Errorf("%w (last answer: %w)", pauseErr, err)
		}
	}
}

func (f frontend) healthy(ctx context.Context) error {
	answer, err := grpc_health_v1.NewHealthClient(f).Check(ctx, &grpc_health_v1.HealthCheckRequest{
		Service: "temporal.api.workflowservice.v1.WorkflowService",
	})
	if err == nil && answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("health %v", answer.Status)
	}
	return err
}

// register makes the namespace, or raises the retention of the existing one.
func (f frontend) register(ctx context.Context, retention time.Duration) error {
	_, err := f.workflow.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        f.namespace,
		Description:                      "hosted checkout",
		WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	if status.Code(err) != codes.AlreadyExists {
		return err
	}
	there, err := f.workflow.DescribeNamespace(
		ctx, &workflowservice.DescribeNamespaceRequest{Namespace: f.namespace},
	)
	if err != nil || there.Config.WorkflowExecutionRetentionTtl.AsDuration() >= retention {
		return err
	}
	_, err = f.workflow.UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: f.namespace,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(retention)},
	})
	return err
}

// addAttributes adds the attributes that are missing.
func (f frontend) addAttributes(ctx context.Context, wanted map[string]enumspb.IndexedValueType) error {
	there, err := f.operator.ListSearchAttributes(
		ctx, &operatorservice.ListSearchAttributesRequest{Namespace: f.namespace},
	)
	if err != nil {
		return err
	}
	missing := maps.Clone(wanted)
	maps.DeleteFunc(missing, func(name string, _ enumspb.IndexedValueType) bool {
		_, ok := there.CustomAttributes[name]
		return ok
	})
	if len(missing) == 0 {
		return nil
	}
	_, err = f.operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        f.namespace,
		SearchAttributes: missing,
	})
	return err
}

// attributesUsable returns nil when the frontend knows every attribute. It searches workflows by
// each attribute, because the frontend refuses names that it has not learnt yet.
func (f frontend) attributesUsable(ctx context.Context, wanted map[string]enumspb.IndexedValueType) error {
	terms := []string{`WorkflowId = "none"`}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		terms = append(terms, "`"+name+"` IS NULL")
	}
	_, err := f.workflow.CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: f.namespace,
		Query:     strings.Join(terms, " AND "),
	})
	return err
}
