"""Trainings with a sampler: `trl grpo` and its like beside a vLLM server in a replicated job of the same JobSet."""
