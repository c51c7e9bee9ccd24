//go:build first

package main

import corev1 "k8s.io/api/core/v1"

// numGPUs is for Trainer 2.0, which counts no GPUs.
func numGPUs(*corev1.ResourceRequirements) int {
	return 0
}
