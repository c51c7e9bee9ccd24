//go:build older

package main

import (
	"context"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	utiltesting "github.com/kubeflow/trainer/v2/pkg/util/testing"
)

// newEngine is for Trainer 2.0 and 2.1, which have no configuration.
func newEngine(ctx context.Context, clusterRuntime *trainer.ClusterTrainingRuntime) (runtime.Runtime, error) {
	builder := utiltesting.NewClientBuilder().WithObjects(clusterRuntime)
	engines, err := core.New(ctx, builder.Build(), utiltesting.AsIndex(builder))
	return engines[core.ClusterTrainingRuntimeGroupKind], err
}
