package main

import "fmt"

// tuneCases are the torchtune cases.
func tuneCases() []testCase {
	out := collector{seen: map[string]bool{}}
	addDevices(&out)
	addArguments(&out)
	addNodes(&out)
	addCommands(&out)
	addSample(&out)
	return out.cases
}

// addDevices varies what decides between one device and several.
func addDevices(out *collector) {
	for gpus := 0; gpus <= 2; gpus++ {
		key := fmt.Sprintf("%s/gpu%d", llama1B, gpus)
		for _, override := range []string{"none", "gpu0", "gpu1", "gpu4", "cpu"} {
			for processes := 0; processes <= 2; processes++ {
				name := fmt.Sprintf("gpu%d override=%s nproc=%d", gpus, override, processes)
				out.add("devices", name, key, tuneTrainer(nil, tuneResources[override], processes, 0))
			}
		}
	}
	for _, override := range []string{"memory", "empty"} {
		out.add("devices", "gpu2 override="+override, llama1B+"/gpu2", tuneTrainer(nil, tuneResources[override], 0, 0))
	}
	for _, kind := range []string{"cpu", "mig"} {
		out.add("devices", "runtime="+kind, llama1B+"/"+kind, tuneTrainer(nil, nil, 0, 0))
		out.add("devices", "runtime="+kind+" qlora", llama1B+"/"+kind, tuneTrainer(qlora, nil, 0, 0))
	}
}

// addArguments varies args over models and over one or two devices.
func addArguments(out *collector) {
	for gpus := 1; gpus <= 2; gpus++ {
		for _, args := range sortedKeys(tuneArgs) {
			key := fmt.Sprintf("%s/gpu%d", llama1B, gpus)
			out.add("args", fmt.Sprintf("%s gpu%d", args, gpus), key, tuneTrainer(tuneArgs[args], nil, 0, 0))
		}
		for _, model := range []string{llama3B, qwen} {
			key := fmt.Sprintf("%s/gpu%d", model, gpus)
			for _, args := range []string{"none", "lora", "qlora", "dora+quantize"} {
				out.add("models", key+" "+args, key, tuneTrainer(tuneArgs[args], nil, 0, 0))
			}
		}
	}
	for _, name := range sortedKeys(immutableArgs) {
		out.add("immutable", name, llama1B+"/gpu2", tuneTrainer(immutableArgs[name], nil, 0, 0))
	}
}

// addNodes varies numNodes in the job and in the runtime, and the model names.
func addNodes(out *collector) {
	for _, key := range []string{llama1B + "/gpu1", llama1B + "/nodes2", llama70B + "/gpu8", llama70B + "/nodes2"} {
		for nodes := 0; nodes <= 2; nodes++ {
			for _, args := range []string{"none", "lora", "qlora"} {
				name := fmt.Sprintf("%s numNodes=%d %s", key, nodes, args)
				out.add("nodes", name, key, tuneTrainer(tuneArgs[args], nil, 0, nodes))
			}
		}
	}
	for _, name := range oddNames {
		for _, nodes := range []int{0, 2} {
			out.add("names", fmt.Sprintf("%s numNodes=%d", name, nodes), name+"/gpu2", tuneTrainer(nil, nil, 0, nodes))
		}
	}
}

// addCommands varies the command itself: exactly `tune run` is the sign that Trainer reads, and nothing else is.
func addCommands(out *collector) {
	const key = llama1B + "/gpu2"
	out.add("command", "no spec.trainer", key, nil)
	out.add("command", "empty spec.trainer", key, document{})
	out.add("command", "args without a command", key, document{"args": lora})
	out.add("command", "a third word", key, document{"command": list("tune", "run", "full_finetune_single_device")})
	out.add("command", "tune alone", key, document{"command": list("tune")})
	out.add("command", "another launcher", key, document{"command": list("torchrun", "train.py"), "numNodes": 2})
	out.add("command", "a path to tune", key, document{"command": list("/usr/bin/tune", "run")})
	out.add("command", "nothing to copy from the runtime", llama1B+"/bare", tuneTrainer(lora, nil, 0, 0))
	withEnv := func(trainer document, env ...any) document { return merge(trainer, document{"env": env}) }
	plain := tuneTrainer(nil, nil, 0, 0)
	out.add("command", "reserved env", key, withEnv(plain, variable("PET_NNODES", "3"), variable("PET_MASTER_ADDR", "here")))
	out.add("command", "env of the user", key, withEnv(plain, variable("HF_HOME", "/cache"), variable("PET_MAX_RESTARTS", "2")))
	wrong := tuneTrainer(append(append([]any{}, qlora...), "output_dir=/x"), gpuLimit(4), 2, 2)
	out.add("command", "every mistake at once", qwen+"/gpu2", withEnv(wrong, variable("PET_NODE_RANK", "0")))
}

// dimensions of the product that addSample walks; the index of a value is a digit of the case's number.
var (
	sampleModels    = []string{llama1B, llama3B, qwen}
	sampleOverrides = []string{"none", "gpu0", "gpu1", "gpu4", "cpu"}
	sampleArgs      = []string{"none", "lora", "qlora", "quantize-false", "quantize-True", "dora+quantize"}
)

// addSample takes every 61st job of the whole product, so that combinations which nobody thought of are there too. 61 is
// prime and divides no dimension, so that each value of each dimension comes up.
func addSample(out *collector) {
	const three = 3
	total := len(sampleModels) * three * len(sampleOverrides) * three * len(sampleArgs) * three
	for number := 60; number < total; number += 61 {
		rest := number
		digit := func(base int) int {
			value := rest % base
			rest /= base
			return value
		}
		nodes, args, processes := digit(three), sampleArgs[digit(len(sampleArgs))], digit(three)
		override, gpus := sampleOverrides[digit(len(sampleOverrides))], digit(three)
		key := fmt.Sprintf("%s/gpu%d", sampleModels[rest], gpus)
		name := fmt.Sprintf("%s override=%s nproc=%d %s numNodes=%d", key, override, processes, args, nodes)
		out.add("sample", name, key, tuneTrainer(tuneArgs[args], tuneResources[override], processes, nodes))
	}
}
