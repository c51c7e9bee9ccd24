"""What Muster's image adds to vLLM: sleep that cannot be is refused, and a check of what Muster relies on.

vLLM loads `sleep` in each of its processes by the entry point `vllm.general_plugins` of this distribution.
"""
