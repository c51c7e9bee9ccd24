package main

import "fmt"

const (
	llama1B  = "torchtune-llama3.2-1b"
	llama3B  = "torchtune-llama3.2-3b"
	llama70B = "torchtune-llama3.3-70b"
	qwen     = "torchtune-qwen2.5-1.5b"
)

// oddNames are runtime names that Trainer cannot read as a supported model, but for the fourth: only the last two parts count.
var oddNames = []string{
	"torchtune-gemma2-2b", "torchtune-custom", "my-torchtune-llama3.2-1b", "tune-llama3.2-1b", "torchtune-LLAMA3.2-1B",
}

// tuneRuntimes are the runtimes of the torchtune cases, by a key of ours: the name with what differs behind the slash.
func tuneRuntimes(manifests string) (map[string]document, error) {
	out := map[string]document{}
	for _, name := range []string{llama1B, llama3B, qwen} {
		base, err := readRuntime(manifests, name)
		if err != nil {
			return nil, err
		}
		for gpus := 0; gpus <= 2; gpus++ {
			if out[fmt.Sprintf("%s/gpu%d", name, gpus)], err = withGPUs(base, gpus); err != nil {
				return nil, err
			}
		}
	}
	addInvented(out)
	return out, nil
}

// addInvented adds runtimes that nobody ships: more nodes, other devices, odd names.
func addInvented(out map[string]document) {
	big := document{
		"command": list("tune", "run", "full_finetune_distributed", "--config", "llama3_3/70B_full",
			"output_dir=/out", "checkpointer.checkpoint_dir=/model", "batch_size=2"),
		"resources": gpuLimit(8),
	}
	add := func(name, variant string, nodes int, container document) {
		policy := document{}
		if nodes != 0 {
			policy["numNodes"] = nodes
		}
		out[name+"/"+variant] = clusterRuntime(name, "torchtune", policy, container)
	}
	add(llama70B, "gpu8", 1, big)
	add(llama70B, "nodes2", 2, big)
	add(llama1B, "nodes2", 2, big)
	add(llama1B, "bare", 0, document{"resources": gpuLimit(2)})
	add(llama1B, "cpu", 0, document{"resources": document{"requests": document{"cpu": "4"}}})
	add(llama1B, "mig", 0, document{"resources": document{"limits": document{"nvidia.com/mig-1g.10gb": 2}}})
	for _, name := range oddNames {
		add(name, "gpu2", 0, big)
	}
}
