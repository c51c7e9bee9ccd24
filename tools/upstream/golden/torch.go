package main

import "fmt"

// torchRuntimes are runtimes whose resources, process environment or shape differ; the key says how.
func torchRuntimes() map[string]document {
	out := map[string]document{}
	add := func(key string, mlPolicy, container document) {
		out[key] = clusterRuntime(key, "torch", mlPolicy, container)
	}
	for key, resources := range map[string]document{
		"bare": nil, "gpu4": gpuLimit(4), "gpu1": gpuLimit(1),
		"gpu-requests":        {"requests": document{"nvidia.com/gpu": 3}},
		"gpu-requests-limits": {"requests": document{"nvidia.com/gpu": 2}, "limits": document{"nvidia.com/gpu": 5}},
		"gpu-requests-zero":   {"requests": document{"nvidia.com/gpu": 0}, "limits": document{"nvidia.com/gpu": 4}},
		"gpu-amd":             {"limits": document{"amd.com/gpu": 2}},
		"gpu-intel":           {"limits": document{"gpu.intel.com/i915": 2}},
		"gpu-upper":           {"limits": document{"example.com/GPU-shared": 6}},
		"gpu-memory":          {"limits": document{"aliyun.com/gpu-mem": 16}},
		"gpu-cpu":             {"limits": document{"nvidia.com/gpu": 2, "cpu": "32"}, "requests": document{"cpu": "16"}},
		"mig":                 {"limits": document{"nvidia.com/mig-1g.10gb": 2}},
		"mig-cpu":             {"limits": document{"nvidia.com/mig-1g.10gb": 2, "cpu": "8"}},
		"cpu-limits":          {"limits": document{"cpu": "8"}},
		"cpu-both":            {"limits": document{"cpu": "8"}, "requests": document{"cpu": "2"}},
		"cpu-milli":           {"requests": document{"cpu": "2500m"}},
		"cpu-fraction":        {"requests": document{"cpu": "300m"}},
		"cpu-zero":            {"requests": document{"cpu": "0"}, "limits": document{"cpu": "6"}},
		"cpu-float":           {"requests": document{"cpu": 1.5}},
		"memory":              {"limits": document{"memory": "8Gi"}},
	} {
		container := document{}
		if resources != nil {
			container["resources"] = resources
		}
		add(key, nil, container)
	}
	add("nodes3", document{"numNodes": 3}, nil)
	add("nodes0", document{"numNodes": 0}, nil)
	add("env", nil, document{"env": []any{variable("LANG", "C"), variable("PET_NPROC_PER_NODE", "auto")}})
	launch := document{"command": list("torchrun", "default.py"), "args": list("--epochs=1")}
	add("command", nil, merge(launch, document{"resources": gpuLimit(2)}))
	if *injects {
		target := document{"jobName": "node", "containerNames": list("node")}
		add("inject-node", document{"torch": document{"envInjection": document{"targets": []any{target}}}}, nil)
	}
	if older() {
		addPolicies(out)
	}
	add("claims", nil, document{"resources": document{"claims": []any{document{"name": "gpu"}}, "requests": document{"cpu": "4"}}})
	return out
}

// torchCases are plain torch jobs: what Trainer counts, and the environment that it gives to torchrun.
func torchCases() []testCase {
	out := collector{seen: map[string]bool{}}
	runtimes := torchRuntimes()
	for _, runtimeKey := range sortedKeys(runtimes) {
		out.add("runtime", runtimeKey, runtimeKey, document{})
	}
	addAbsence(&out, runtimes)
	addOverrides(&out)
	addCounts(&out)
	addUserFields(&out)
	addPatchCases(&out)
	if older() {
		addPolicyCases(&out)
	}
	return out.cases
}

// addAbsence leaves spec.trainer out.
func addAbsence(out *collector, runtimes map[string]document) {
	for _, runtimeKey := range []string{"bare", "gpu4", "env", "command", "nodes3", "inject-node"} {
		if runtimes[runtimeKey] != nil {
			out.add("no trainer", runtimeKey, runtimeKey, nil)
		}
	}
}

// addOverrides sets resourcesPerNode, which Trainer counts alone although the pod gets the sum of both.
func addOverrides(out *collector) {
	overrides := map[string]document{
		"empty": {}, "memory": {"limits": document{"memory": "64Gi"}}, "gpu1": gpuLimit(1), "gpu0": gpuLimit(0), "gpu8": gpuLimit(8),
		"gpu-requests": {"requests": document{"nvidia.com/gpu": 2}}, "cpu": {"requests": document{"cpu": "2500m"}},
		"mig": {"limits": document{"nvidia.com/mig-1g.10gb": 2}}, "amd": {"limits": document{"amd.com/gpu": 2}},
	}
	for _, name := range sortedKeys(overrides) {
		out.add("override", "gpu4 with "+name, "gpu4", document{"resourcesPerNode": overrides[name]})
	}
	out.add("override", "cpu-both with gpu8", "cpu-both", document{"resourcesPerNode": overrides["gpu8"]})
	out.add("override", "cpu-both with memory", "cpu-both", document{"resourcesPerNode": overrides["memory"]})
	out.add("override", "claims with memory", "claims", document{"resourcesPerNode": overrides["memory"]})
}

// addCounts sets numNodes and numProcPerNode, wrong values included: Trainer lets them pass.
func addCounts(out *collector) {
	for _, processes := range []int{1, 2, 8, 0, -1} {
		out.add("processes", fmt.Sprintf("gpu4 numProcPerNode=%d", processes), "gpu4", document{"numProcPerNode": processes})
	}
	out.add("processes", "cpu-both numProcPerNode=4", "cpu-both", document{"numProcPerNode": 4})
	for _, nodes := range []int{1, 2, 0, -1} {
		out.add("nodes", fmt.Sprintf("nodes3 numNodes=%d", nodes), "nodes3", document{"numNodes": nodes})
	}
	out.add("nodes", "bare numNodes=2", "bare", document{"numNodes": 2})
}

// addUserFields sets what a user may write beside Trainer's own: command, args and env.
func addUserFields(out *collector) {
	withEnv := func(entries ...any) document { return document{"env": entries} }
	out.add("user", "command and args", "command", document{"command": list("python", "train.py"), "args": list("--lr=1")})
	out.add("user", "args only", "command", document{"args": list("--lr=1")})
	out.add("user", "empty args", "command", document{"args": list()})
	out.add("user", "env over the runtime's", "env", withEnv(variable("LANG", "en_US.UTF-8"), variable("NCCL_DEBUG", "INFO")))
	unreserved := withEnv(variable("PET_RDZV_BACKEND", "c10d"), variable("MASTER_ADDR", "me"))
	out.add("user", "rendezvous that is not reserved", "gpu4", unreserved)
	reserved := []any{}
	for _, name := range []string{"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"} {
		reserved = append(reserved, variable(name, "1"))
	}
	out.add("user", "every reserved variable", "gpu4", document{"env": reserved})
	out.add("user", "tune run on a plain runtime", "gpu4", document{"command": list("tune", "run")})
}
