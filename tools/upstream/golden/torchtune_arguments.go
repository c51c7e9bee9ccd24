package main

var (
	lora  = list("model.lora_attn_modules=[q_proj,v_proj]", "model.lora_rank=8", "batch_size=2")
	qlora = list("model.lora_attn_modules=[q_proj,v_proj]", "model.quantize_base=true")
	dora  = list("model.lora_attn_modules=[q_proj,v_proj]", "model.quantize_base=true", "model.use_dora=true")

	// tuneArgs are spellings of the arguments that decide between full, LoRA and QLoRA.
	tuneArgs = map[string][]any{
		"none":            nil,
		"plain":           list("epochs=1"),
		"lora":            lora,
		"qlora":           qlora,
		"dora+quantize":   dora,
		"quantize-True":   list("model.quantize_base=True"),
		"quantize-TRUE":   list("model.quantize_base=TRUE"),
		"quantize-false":  list("model.lora_attn_modules=[q_proj]", "model.quantize_base=false"),
		"quantize-one":    list("model.quantize_base=1"),
		"quantize-bare":   list("model.quantize_base"),
		"quantize-spaced": list("model.quantize_base= true "),
		"quantize-dashes": list("--model.quantize_base=true"),
		"quantize-twice":  list("model.quantize_base=false", "model.quantize_base=true"),
		"dora-False":      list("model.quantize_base=true", "model.use_dora=False"),
		"dora-True":       list("model.use_dora=True", "model.quantize_base=True"),
		"dora-alone":      list("model.use_dora=true"),
		"lora-in-value":   list("run_name=model.lora_attn_modules"),
		"lora-prefix":     list("model.lora_attn_modules_extra=x"),
	}

	// immutableArgs try to set what belongs to the runtime, or look as if they did.
	immutableArgs = map[string][]any{
		"output_dir":            list("output_dir=/tmp"),
		"tokenizer.path":        list("tokenizer.path=/t"),
		"tokenizer.merges_file": list("tokenizer.merges_file=/m"),
		"checkpoint_dir":        list("checkpointer.checkpoint_dir=/c"),
		"several":               list("epochs=1", "output_dir=/a", "lr=1", "tokenizer.path=/b"),
		"no-equals":             list("output_dir"),
		"dashes":                list("--output_dir=/tmp"),
		"longer-name":           list("output_dir_suffix=a", "my.output_dir=/x"),
		"equals-in-value":       list("output_dir=a=b"),
		"with-lora":             append(append([]any{}, lora...), "checkpointer.checkpoint_dir=/c"),
		"tokenizer-other":       list("tokenizer.max_seq_len=512"),
		"checkpointer-other":    list("checkpointer.output_dir=/c"),
	}

	// tuneResources are values of spec.trainer.resourcesPerNode; nil leaves it out.
	tuneResources = map[string]document{
		"none":   nil,
		"gpu0":   gpuLimit(0),
		"gpu1":   gpuLimit(1),
		"gpu4":   gpuLimit(4),
		"cpu":    {"requests": document{"cpu": "3"}},
		"memory": {"limits": document{"memory": "8Gi"}},
		"empty":  {},
	}
)

// tuneTrainer is a spec.trainer that says `tune run`; zero processes or nodes leave the field out.
func tuneTrainer(args []any, resources document, processes, nodes int) document {
	out := document{"command": list("tune", "run")}
	if args != nil {
		out["args"] = args
	}
	if resources != nil {
		out["resourcesPerNode"] = resources
	}
	if processes != 0 {
		out["numProcPerNode"] = processes
	}
	if nodes != 0 {
		out["numNodes"] = nodes
	}
	return out
}
