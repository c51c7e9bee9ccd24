package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// document is a Kubernetes object as people write it; cases keep it, so that nothing that Go adds on the way shows in the files.
type document = map[string]any

// list spells a YAML list shortly.
func list(words ...string) []any {
	out := make([]any, 0, len(words))
	for _, word := range words {
		out = append(out, word)
	}
	return out
}

// merge lays the second document over a copy of the first, one level deep.
func merge(below, above document) document {
	out := document{}
	for key, value := range below {
		out[key] = value
	}
	for key, value := range above {
		out[key] = value
	}
	return out
}

// trainJob makes a job of one runtime; a nil trainer means that spec.trainer is absent, which differs from an empty one.
func trainJob(runtimeName string, trainer document) document {
	spec := document{"runtimeRef": document{"name": runtimeName}}
	if trainer != nil {
		spec["trainer"] = trainer
	}
	return document{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": document{"name": "tune", "namespace": "lab"}, "spec": spec,
	}
}

// clusterRuntime makes a torch runtime with one replicated job, `node`, of the given container fields.
func clusterRuntime(name, framework string, mlPolicy, container document) document {
	replicatedJob := document{"name": "node", "template": document{
		"metadata": document{"labels": document{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
		"spec": document{"template": document{"spec": document{
			"containers": []any{merge(document{"name": "node", "image": "example.org/node:1"}, container)},
		}}},
	}}
	return document{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
		"metadata": document{"name": name, "labels": document{"trainer.kubeflow.org/framework": framework}},
		"spec": document{
			"mlPolicy": merge(document{"torch": document{}}, mlPolicy),
			"template": document{"spec": document{"replicatedJobs": []any{replicatedJob}}},
		},
	}
}

// node finds the fields of container `node` of a runtime document, to be changed in place.
func node(runtimeDocument document) (document, error) {
	spec := runtimeDocument["spec"].(document)["template"].(document)["spec"].(document)
	for _, entry := range spec["replicatedJobs"].([]any) {
		replicatedJob := entry.(document)
		if replicatedJob["name"] != "node" {
			continue
		}
		podSpec := replicatedJob["template"].(document)["spec"].(document)["template"].(document)["spec"].(document)
		return podSpec["containers"].([]any)[0].(document), nil
	}
	return nil, fmt.Errorf("runtime %v has no replicated job `node`", runtimeDocument["metadata"])
}

// readRuntime reads one manifest file.
func readRuntime(folder, name string) (document, error) {
	path := filepath.Join(folder, name+".yaml")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := document{}
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if older() { // their JobSet has no such member
		delete(out["spec"].(document)["template"].(document)["spec"].(document), "volumeClaimPolicies")
	}
	return out, nil
}

// withGPUs returns the runtime with the given limit of nvidia.com/gpu; zero removes it.
func withGPUs(runtimeDocument document, count int) (document, error) {
	raw, err := yaml.Marshal(runtimeDocument)
	if err != nil {
		return nil, err
	}
	out := document{}
	if err := yaml.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	container, err := node(out)
	if err != nil {
		return nil, err
	}
	delete(container, "resources")
	if count > 0 {
		container["resources"] = gpuLimit(count)
	}
	return out, nil
}

func gpuLimit(count int) document {
	return document{"limits": document{"nvidia.com/gpu": count}}
}
