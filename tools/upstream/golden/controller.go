package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	jobsetac "sigs.k8s.io/jobset/client-go/applyconfiguration/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/constants"
	"github.com/kubeflow/trainer/v2/pkg/runtime"
)

// fieldError is one reason for which Trainer's webhook refuses a TrainJob.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// outcome is what Trainer makes of one TrainJob: the container `node` of the JobSet that it would apply, the GPU count that
// it worked with, and what its validating webhook says; of a job that changes its pods also the JobSet's labels and the pod. The two are independent: a refused job has a command, too.
type outcome struct {
	Command   []string                                         `json:"wantCommand"`
	Args      []string                                         `json:"wantArgs"`
	Env       []corev1ac.EnvVarApplyConfiguration              `json:"wantEnv"`
	Resources *corev1ac.ResourceRequirementsApplyConfiguration `json:"wantResources,omitempty"`
	GPUs      int                                              `json:"wantGPUs"`
	Errors    []fieldError                                     `json:"wantErrors"`
	Labels    map[string]string                                `json:"wantLabels,omitempty"`
	Pod       *corev1ac.PodTemplateSpecApplyConfiguration      `json:"wantPod,omitempty"`
}

// evaluate runs the webhook's validation and the controller's build on one job, with a fresh fake cluster that holds
// nothing but the runtime: the controller freezes a snapshot of the runtime per job name, so a shared cluster would mix cases.
func evaluate(ctx context.Context, runtimeDocument, jobDocument document) (outcome, error) {
	var clusterRuntime trainer.ClusterTrainingRuntime
	var job trainer.TrainJob
	if err := decode(runtimeDocument, &clusterRuntime); err != nil {
		return outcome{}, fmt.Errorf("runtime: %w", err)
	}
	if err := decode(jobDocument, &job); err != nil {
		return outcome{}, fmt.Errorf("trainjob: %w", err)
	}
	engine, err := newEngine(ctx, clusterRuntime.DeepCopy())
	if err != nil {
		return outcome{}, err
	}
	refusals := validate(ctx, engine, job.DeepCopy())
	objects, err := engine.NewObjects(ctx, job.DeepCopy())
	if err != nil {
		return outcome{}, fmt.Errorf("building the JobSet: %w", err)
	}
	result, err := readNode(objects)
	if err != nil {
		return outcome{}, err
	}
	if !isPatched(jobDocument) {
		result.Labels, result.Pod = nil, nil
	}
	result.GPUs = countGPUs(&job, &clusterRuntime)
	result.Errors = []fieldError{}
	result.Errors = append(result.Errors, refusals...)
	return result, nil
}

// validate returns what the webhook refuses; Trainer 2.0 and 2.1 panic at `tune run` without numNodes.
func validate(ctx context.Context, engine runtime.Runtime, job *trainer.TrainJob) (found []fieldError) {
	defer func() {
		if cause := recover(); cause != nil {
			found = []fieldError{{Field: "spec.trainer", Detail: fmt.Sprint("panic: ", cause)}}
		}
	}()
	_, refusals := engine.ValidateObjects(ctx, nil, job)
	for _, refusal := range refusals {
		found = append(found, fieldError{Field: refusal.Field, Detail: refusal.Detail})
	}
	return found
}

func isPatched(job document) bool {
	for member := range job["spec"].(document) {
		if member == "runtimePatches" || strings.HasSuffix(member, "Overrides") {
			return true
		}
	}
	return false
}

// decode goes through strict JSON, so that a misspelt field in a case is an error here and not a silent default.
func decode(from document, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(raw, into)
}

// readNode finds container `node` of the trainer step; a JobSet without one is a case too, and gives an empty outcome.
func readNode[T any](objects []T) (outcome, error) {
	for _, object := range objects {
		jobSet, ok := any(object).(*jobsetac.JobSetApplyConfiguration)
		if !ok {
			continue
		}
		for _, replicatedJob := range jobSet.Spec.ReplicatedJobs {
			if replicatedJob.Template.Labels[constants.LabelTrainJobAncestor] != constants.AncestorTrainer {
				continue
			}
			for _, container := range replicatedJob.Template.Spec.Template.Spec.Containers {
				if *container.Name == constants.Node {
					return outcome{
						Command: container.Command, Args: container.Args, Env: container.Env, Resources: container.Resources,
						Labels: jobSet.Labels, Pod: replicatedJob.Template.Spec.Template,
					}, nil
				}
			}
		}
		return outcome{}, nil
	}
	return outcome{}, fmt.Errorf("no JobSet among %d objects", len(objects))
}

// countGPUs repeats the choice at the head of the torch plugin (a job's resourcesPerNode stand in for the runtime's, whole) with
// the real counting function, because the plugin's own result is only visible as the word "auto".
func countGPUs(job *trainer.TrainJob, clusterRuntime *trainer.ClusterTrainingRuntime) int {
	if job.Spec.Trainer != nil && job.Spec.Trainer.ResourcesPerNode != nil {
		return numGPUs(job.Spec.Trainer.ResourcesPerNode)
	}
	for _, replicatedJob := range clusterRuntime.Spec.Template.Spec.ReplicatedJobs {
		step := replicatedJob.Template.Labels[constants.LabelTrainJobAncestor]
		if replicatedJob.Name != constants.Node && step != constants.AncestorTrainer {
			continue
		}
		for _, container := range replicatedJob.Template.Spec.Template.Spec.Containers {
			if container.Name == constants.Node {
				resources := corev1.ResourceRequirements{Limits: container.Resources.Limits, Requests: container.Resources.Requests}
				return numGPUs(&resources)
			}
		}
	}
	return 0
}
