package main

import (
	"flag"
	"runtime/debug"
	"strings"
)

var (
	whole   = flag.Bool("whole", false, "write every answer into cases.json, not only those that differ from that file's")
	injects = flag.Bool("injects", false, "its runtimes have mlPolicy.torch.envInjection")
	patches = flag.String("patches", "runtimePatches", "the member of a TrainJob that changes its pods")
)

// older says that numbers of processes may be words, and that a TrainJob has labels and annotations of its own.
func older() bool {
	return *patches != "runtimePatches"
}

// release is the version of the Trainer module that this program was built with.
func release() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/kubeflow/trainer/v2" {
			return module.Version
		}
	}
	return ""
}

// minor is the release without its patch.
func minor() string {
	return strings.Join(strings.Split(strings.TrimPrefix(release(), "v"), ".")[:2], ".")
}

// policies are values of mlPolicy.torch.numProcPerNode, which only older Trainers have.
func addPolicies(out map[string]document) {
	for key, value := range map[string]any{"auto": "auto", "cpu": "cpu", "gpu": "gpu", "three": 3} {
		policy := document{"torch": document{"numProcPerNode": value}}
		resources := document{"limits": document{"nvidia.com/gpu": 2, "cpu": "6"}}
		out["policy-"+key] = clusterRuntime("policy-"+key, "torch", policy, document{"resources": resources})
		out["policy-"+key+"-cpu"] = clusterRuntime("policy-"+key+"-cpu", "torch", policy, document{"resources": document{"requests": document{"cpu": "5"}}})
	}
}

// addPolicyCases are jobs of runtimes with a policy, and jobs whose own number is a word.
func addPolicyCases(out *collector) {
	words := []any{nil, "auto", "cpu", "gpu", 4}
	overrides := []document{nil, gpuLimit(8), {"requests": document{"cpu": "3"}}, {"limits": document{"cpu": "7", "nvidia.com/gpu": 1}}}
	for _, key := range []string{"auto", "cpu", "gpu", "three", "auto-cpu", "cpu-cpu", "three-cpu"} {
		for _, word := range words {
			for index, override := range overrides {
				trainer := document{}
				if word != nil {
					trainer["numProcPerNode"] = word
				}
				if override != nil {
					trainer["resourcesPerNode"] = override
				}
				if word == nil || key == "auto" || (key == "auto-cpu" && index < 2) {
					out.add("policy", line([]any{key, word, override}), "policy-"+key, trainer)
				}
			}
		}
	}
}

// patched are pods that a TrainJob changes, as each Trainer spells it.
func addPatchCases(out *collector) {
	volumes := []any{document{"name": "data", "persistentVolumeClaim": document{"claimName": "data"}}}
	mount := []any{document{"name": "data", "mountPath": "/data"}}
	first := document{
		"serviceAccountName": "trainer", "nodeSelector": document{"pool": "gpu"}, "volumes": volumes,
		"tolerations":     []any{document{"key": "gpu", "operator": "Exists"}},
		"containers":      []any{document{"name": "node", "volumeMounts": mount}},
		"schedulingGates": []any{document{"name": "example.org/wait"}},
	}
	second := document{"nodeSelector": document{"zone": "a"}, "volumes": []any{document{"name": "more", "emptyDir": document{}}}}
	both := map[string][]document{"one": {first}, "two of one job": {first, second}}
	for _, name := range sortedKeys(both) {
		pods := both[name]
		job := trainJob("gpu4", document{"numNodes": 2})
		spec := job["spec"].(document)
		for index, pod := range pods {
			addPatch(spec, index, pod)
		}
		if older() {
			spec["labels"] = document{"queue": "a"}
			spec["annotations"] = document{"note": "b"}
		}
		out.cases = append(out.cases, testCase{Name: "patches: " + name, Runtime: "gpu4", TrainJob: job})
	}
}

func addPatch(spec document, index int, pod document) {
	target := []any{document{"name": "node"}}
	entry := document{}
	switch *patches {
	case "podSpecOverrides":
		entry = merge(pod, document{"targetJobs": target})
	case "podTemplateOverrides":
		metadata := document{"labels": document{"tier": "gold"}, "annotations": document{"seen": "yes"}}
		entry = document{"targetJobs": target, "metadata": metadata, "spec": pod}
	default:
		job := document{"name": "node", "template": document{"spec": document{"template": document{"spec": pod}}}}
		template := document{"metadata": document{"labels": document{"queue": "a"}}, "spec": document{"replicatedJobs": []any{job}}}
		entry = document{"manager": "example.org/" + string(rune('a'+index)), "trainingRuntimeSpec": document{"template": template}}
	}
	before, _ := spec[*patches].([]any)
	spec[*patches] = append(before, entry)
}
