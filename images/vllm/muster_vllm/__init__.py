"""What Muster's image adds to vLLM: it refuses sleep where vLLM cannot sleep, and checks what Muster relies on.

vLLM loads `sleep` in each of its processes through the entry point `vllm.general_plugins` of this distribution.
"""
