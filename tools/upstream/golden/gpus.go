//go:build !first

package main

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeflow/trainer/v2/pkg/runtime"
)

func numGPUs(resources *corev1.ResourceRequirements) int {
	return runtime.GetNumGPUPerNode(resources)
}
