//go:build !older

package main

import (
	"context"

	configapi "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	utiltesting "github.com/kubeflow/trainer/v2/pkg/util/testing"
)

func newEngine(ctx context.Context, clusterRuntime *trainer.ClusterTrainingRuntime) (runtime.Runtime, error) {
	builder := utiltesting.NewClientBuilder().WithObjects(clusterRuntime)
	engines, err := core.New(ctx, builder.Build(), utiltesting.AsIndex(builder), &configapi.Configuration{})
	return engines[core.ClusterTrainingRuntimeGroupKind], err
}
