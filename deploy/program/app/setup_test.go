package app

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
)

// hosted is a Temporal that lets nobody change a namespace with its ordinary calls.
type hosted struct {
	workflowservice.UnimplementedWorkflowServiceServer
	operatorservice.UnimplementedOperatorServiceServer

	there     bool
	retention time.Duration
}

func (h *hosted) DescribeNamespace(
	context.Context, *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	if !h.there {
		return nil, serviceerror.ToStatus(serviceerror.NewNamespaceNotFound("prod.a1b2c")).Err()
	}
	return &workflowservice.DescribeNamespaceResponse{
		Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(h.retention)},
	}, nil
}

func (h *hosted) RegisterNamespace(
	context.Context, *workflowservice.RegisterNamespaceRequest,
) (*workflowservice.RegisterNamespaceResponse, error) {
	return nil, status.Error(codes.PermissionDenied, "use the control plane")
}

func (h *hosted) ListSearchAttributes(
	context.Context, *operatorservice.ListSearchAttributesRequest,
) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{}, nil
}

func TestSetup_NamesTheCommandsOfAHostedTemporal(t *testing.T) {
	t.Parallel()
	database := pgtemp.ForTest(t, storage.Migrate)
	for name, c := range map[string]struct {
		temporal *hosted
		want     string
	}{
		"no namespace": {
			&hosted{}, "tcld namespace create --namespace prod.a1b2c --retention-days 7 --region REGION --ca-certificate-file FILE",
		},
		"a short retention": {
			&hosted{there: true, retention: 24 * time.Hour}, "tcld namespace retention set --namespace prod.a1b2c --retention-days 7",
		},
		"no attributes": {
			&hosted{there: true, retention: 720 * time.Hour}, `tcld namespace search-attributes add --namespace prod.a1b2c` +
				` --search-attribute "CheckoutMode=Keyword" --search-attribute "DeliveryStatus=Keyword"` +
				` --search-attribute "EventType=Keyword" --search-attribute "MerchantId=Keyword"` +
				` --search-attribute "SessionStatus=Keyword"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, notes bytes.Buffer
			err := Main(t.Context(), []string{"setup"}, []string{
				"DATABASE_URL=" + database, "TEMPORAL_ADDRESS=" + c.temporal.serve(t), "TEMPORAL_NAMESPACE=prod.a1b2c",
			}, &out, &notes)
			require.ErrorContains(t, err, "namespace prod.a1b2c: Temporal does not let this client ")
			require.ErrorContains(t, err, "\nOn Temporal Cloud, run this and then setup again:\n  "+c.want)
			require.Regexp(t, "^the database's schema is up to date\nconnecting to Temporal at 127.0.0.1:[0-9]+ \\(TEMPORAL_ADDRESS\\), "+
				"for 3m0s at most\n$", out.String())
		})
	}
}

// serve returns the address.
func (h *hosted) serve(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, h)
	operatorservice.RegisterOperatorServiceServer(server, h)
	checks := health.NewServer()
	checks.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(listener) }() // Stop ends it
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}
