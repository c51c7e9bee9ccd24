// The webhook that somebody writes with controller-runtime who cares for its cost: it decodes no more than it looks at,
// and writes the operations of the patch itself. It makes the same change as ../typed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"muster.dev/bench/peers/serving"
)

const largest = 64 // pods of a replicated job that the validating phase lets pass

type jobSet struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ReplicatedJobs []replicatedJob `json:"replicatedJobs"`
	} `json:"spec"`
}

type replicatedJob struct {
	Name     string `json:"name"`
	Template struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Completions *int `json:"completions"`
			Template    struct {
				Spec struct {
					Containers []container `json:"containers"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	} `json:"template"`
}

type container struct {
	Name      string            `json:"name"`
	Command   []string          `json:"command"`
	Env       []json.RawMessage `json:"env"`
	Resources struct {
		Limits map[string]json.RawMessage `json:"limits"`
	} `json:"resources"`
}

type variable struct {
	Name      string `json:"name"`
	Value     string `json:"value,omitempty"`
	ValueFrom any    `json:"valueFrom,omitempty"`
}

type handler func(*jobSet) admission.Response

func main() {
	serving.Serve(runtime.NewScheme(), map[string]admission.Handler{
		"/mutate":   handler(mutate),
		"/validate": handler(validate),
	})
}

func (h handler) Handle(_ context.Context, request admission.Request) admission.Response {
	job := &jobSet{}
	if err := json.Unmarshal(request.Object.Raw, job); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return h(job)
}

func mutate(job *jobSet) admission.Response {
	var operations []jsonpatch.Operation
	for index := range job.Spec.ReplicatedJobs {
		operations = append(operations, changes(job.Metadata.Name, index, &job.Spec.ReplicatedJobs[index])...)
	}
	return admission.Patched("", operations...)
}

func validate(job *jobSet) admission.Response {
	for _, each := range job.Spec.ReplicatedJobs {
		if pods := of(each.Template.Spec.Completions); pods > largest {
			return admission.Denied(fmt.Sprintf("%s: %d pods are more than %d", each.Name, pods, largest))
		}
	}
	return admission.Allowed("")
}

// changes gives the training container of a replicated job torchrun as its launcher, and what torchrun needs to know.
func changes(name string, index int, job *replicatedJob) []jsonpatch.Operation {
	if job.Template.Metadata.Labels["trainer.kubeflow.org/trainjob-ancestor-step"] != "trainer" {
		return nil
	}
	var operations []jsonpatch.Operation
	for number, each := range job.Template.Spec.Template.Spec.Containers {
		if each.Name != "node" || !slices.Equal(each.Command, []string{"trl", "sft"}) {
			continue
		}
		path := fmt.Sprintf("/spec/replicatedJobs/%d/template/spec/template/spec/containers/%d", index, number)
		operations = append(operations, jsonpatch.NewOperation("replace", path+"/command", []string{"torchrun", "-m", "trl.scripts.sft"}))
		if each.Env == nil {
			operations = append(operations, jsonpatch.NewOperation("add", path+"/env", []variable{}))
		}
		for _, variable := range variables(name, job, each) {
			operations = append(operations, jsonpatch.NewOperation("add", path+"/env/-", variable))
		}
	}
	return operations
}

func variables(name string, job *replicatedJob, container container) []variable {
	address := name + "-" + job.Name + "-0-0." + name
	nodes, gpus := of(job.Template.Spec.Completions), amount(container.Resources.Limits["nvidia.com/gpu"])
	rank := map[string]any{"fieldRef": map[string]string{
		"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
	}}
	return []variable{
		{Name: "PET_NNODES", Value: strconv.Itoa(nodes)},
		{Name: "PET_NPROC_PER_NODE", Value: strconv.Itoa(gpus)},
		{Name: "PET_NODE_RANK", ValueFrom: rank},
		{Name: "PET_MASTER_ADDR", Value: address},
		{Name: "PET_MASTER_PORT", Value: "29500"},
		{Name: "MASTER_ADDR", Value: address},
		{Name: "MASTER_PORT", Value: "29500"},
		{Name: "MUSTER_EXPECTED_WORLD_SIZE", Value: strconv.Itoa(nodes * gpus)},
	}
}

// amount reads a number of devices, which is a text or a number in JSON; anything else counts as none.
func amount(limit json.RawMessage) int {
	text := string(limit)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	number, _ := strconv.Atoi(text)
	return number
}

func of(number *int) int {
	if number == nil {
		return 1
	}
	return *number
}
