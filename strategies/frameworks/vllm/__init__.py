"""vLLM: an OpenAI-compatible server that uses all of its GPUs and reports when it is ready."""
