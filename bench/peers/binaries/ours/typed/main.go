// The webhook that controller-runtime's documentation leads to: the object is decoded into JobSet's type, changed in
// Go, encoded again, and the patch is the difference of the two texts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"muster.dev/bench/peers/serving"
)

const largest = 64 // pods of a replicated job that the validating phase lets pass

type handler struct {
	decoder admission.Decoder
	answer  func(context.Context, admission.Request, *jobset.JobSet) admission.Response
}

func main() {
	known := runtime.NewScheme()
	if err := jobset.AddToScheme(known); err != nil {
		panic(err)
	}
	decoder := admission.NewDecoder(known)
	serving.Serve(known, map[string]admission.Handler{
		"/mutate":   handler{decoder, mutate},
		"/validate": handler{decoder, validate},
	})
}

func (h handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	job := &jobset.JobSet{}
	if err := h.decoder.Decode(request, job); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return h.answer(ctx, request, job)
}

func mutate(_ context.Context, request admission.Request, job *jobset.JobSet) admission.Response {
	for index := range job.Spec.ReplicatedJobs {
		change(job.Name, &job.Spec.ReplicatedJobs[index])
	}
	changed, err := json.Marshal(job)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

func validate(_ context.Context, _ admission.Request, job *jobset.JobSet) admission.Response {
	for _, each := range job.Spec.ReplicatedJobs {
		if pods := of(each.Template.Spec.Completions); pods > largest {
			return admission.Denied(fmt.Sprintf("%s: %d pods are more than %d", each.Name, pods, largest))
		}
	}
	return admission.Allowed("")
}

// change gives the training container of a replicated job torchrun as its launcher, and what torchrun needs to know.
func change(name string, job *jobset.ReplicatedJob) {
	if job.Template.Labels["trainer.kubeflow.org/trainjob-ancestor-step"] != "trainer" {
		return
	}
	for index := range job.Template.Spec.Template.Spec.Containers {
		container := &job.Template.Spec.Template.Spec.Containers[index]
		if container.Name != "node" || !slices.Equal(container.Command, []string{"trl", "sft"}) {
			continue
		}
		container.Command = []string{"torchrun", "-m", "trl.scripts.sft"}
		container.Env = append(container.Env, variables(name, job, container)...)
	}
}

func variables(name string, job *jobset.ReplicatedJob, container *core.Container) []core.EnvVar {
	address := fmt.Sprintf("%s-%s-0-0.%s", name, job.Name, name)
	nodes, gpus := int(of(job.Template.Spec.Completions)), container.Resources.Limits["nvidia.com/gpu"]
	rank := &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{
		FieldPath: "metadata.annotations['" + batch.JobCompletionIndexAnnotation + "']",
	}}
	return []core.EnvVar{
		{Name: "PET_NNODES", Value: strconv.Itoa(nodes)},
		{Name: "PET_NPROC_PER_NODE", Value: gpus.String()},
		{Name: "PET_NODE_RANK", ValueFrom: rank},
		{Name: "PET_MASTER_ADDR", Value: address},
		{Name: "PET_MASTER_PORT", Value: "29500"},
		{Name: "MASTER_ADDR", Value: address},
		{Name: "MASTER_PORT", Value: "29500"},
		{Name: "MUSTER_EXPECTED_WORLD_SIZE", Value: strconv.Itoa(nodes * int(gpus.Value()))},
	}
}

func of(number *int32) int32 {
	if number == nil {
		return 1
	}
	return *number
}
