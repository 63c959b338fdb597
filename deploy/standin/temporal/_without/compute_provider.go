package computeprovider

import (
	"context"
	"fmt"

	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/dynamicconfig"
)

// The server's assembly names these for Cloud Run.
type (
	GCPImpersonationChainProvider     any
	NoopGCPImpersonationChainProvider struct{}
)

func SetGCPImpersonationChainProvider(GCPImpersonationChainProvider) {}

func init() {
	for _, kind := range []iface.ComputeProviderType{
		iface.ComputeProviderTypeAWSLambda, iface.ComputeProviderTypeAWSAgentCore, iface.ComputeProviderTypeAWSECS,
		iface.ComputeProviderTypeGCPCloudRun, iface.ComputeProviderTypeK8s,
	} {
		RegisterComputeProvider(kind, func(context.Context, *dynamicconfig.Collection) (ComputeProvider, error) {
			return nil, fmt.Errorf("compute provider %s is left out of the local stack's build of Temporal", kind)
		})
	}
}
