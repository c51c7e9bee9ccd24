"""vllm: the attention heads of models, by the names under which they are published.

The numbers of the models that litgpt 0.5.13 has (`litgpt/config.py`, n_head and n_query_groups) were compared with it;
those of Qwen2, Llama 4, the larger DeepSeek, gpt-oss and GLM are from the sources that `model_shapes.py` names.
"""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.vllm import model_shapes

HEADS = {
    (4, 1): "google/gemma-3-1b-it",
    (8, 1): "google/gemma-2b-it",
    (8, 4): "google/gemma-2-2b-it google/gemma-3-4b-it tiiuae/Falcon3-1B-Instruct",
    (9, 3): "HuggingFaceTB/SmolLM2-135M",
    (12, 2): """
        Qwen/Qwen2-1.5B-Instruct Qwen/Qwen2-Math-1.5B Qwen/Qwen2.5-1.5B Qwen/Qwen2.5-Coder-1.5B /models/Qwen2.5-1.5B/
        deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B
    """,
    (12, 4): "tiiuae/Falcon3-3B-Base tiiuae/Falcon3-7B-Instruct tiiuae/Falcon3-10B-Base",
    (14, 2): "Qwen/Qwen2-0.5B Qwen/Qwen2.5-0.5B-Instruct Qwen/Qwen2.5-Coder-0.5B",
    (15, 5): "HuggingFaceTB/SmolLM2-360M-Instruct",
    (16, 2): "Qwen/Qwen2.5-3B-Instruct",
    (16, 8): "google/gemma-2-9b google/gemma-3-12b-it Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B-Base",
    (16, 16): "google/gemma-7b",
    (24, 8): "meta-llama/Llama-3.2-3B microsoft/Phi-4-mini-instruct microsoft/Phi-4-mini-reasoning",
    (28, 4): """
        Qwen/Qwen2-7B-Instruct Qwen/Qwen2-VL-7B-Instruct Qwen/Qwen2.5-7B Qwen/Qwen2.5-Coder-7B-Instruct-AWQ
        deepseek-ai/DeepSeek-R1-Distill-Qwen-7B
    """,
    (32, 4): "TinyLlama/TinyLlama-1.1B-Chat-v1.0 Qwen/Qwen3-30B-A3B-Thinking-2507 Qwen/Qwen3-Coder-30B-A3B-Instruct",
    (32, 8): """
        meta-llama/Meta-Llama-3-8B meta-llama/Meta-Llama-3.1-8B-Instruct meta-llama/Llama-3.2-1B-Instruct
        deepseek-ai/DeepSeek-R1-Distill-Llama-8B mistralai/Mistral-7B-Instruct-v0.3 mistralai/Mixtral-8x7B-v0.1
        Qwen/Qwen3-4B-Base Qwen/Qwen3-8B
    """,
    (32, 16): "google/gemma-2-27b-it google/gemma-3-27b-it",
    (32, 32): """
        meta-llama/Llama-2-7b-chat-hf codellama/CodeLlama-7b-Python-hf microsoft/phi-2 allenai/OLMo-2-1124-7B-SFT
        microsoft/Phi-3-mini-4k-instruct microsoft/Phi-3.5-mini-instruct HuggingFaceTB/SmolLM2-1.7B
    """,
    (40, 8): """
        Qwen/Qwen2.5-14B-Instruct Qwen/Qwen2.5-Coder-32B Qwen/QwQ-32B-Preview Qwen/Qwen3-14B
        deepseek-ai/DeepSeek-R1-Distill-Qwen-14B deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
        meta-llama/Llama-4-Scout-17B-16E-Instruct meta-llama/Llama-4-Maverick-17B-128E-Instruct
    """,
    (40, 10): "microsoft/phi-4 microsoft/Phi-4-reasoning-plus",
    (40, 40): "meta-llama/Llama-2-13b-hf codellama/CodeLlama-13b-hf allenai/OLMo-2-1124-13B-DPO",
    (48, 8): "mistralai/Mixtral-8x22B-Instruct-v0.1",
    (64, 4): "Qwen/Qwen3-235B-A22B-Instruct-2507",
    (64, 8): """
        Qwen/Qwen2-72B Qwen/Qwen2.5-Math-72B Qwen/Qwen3-32B meta-llama/Llama-2-70b-hf codellama/CodeLlama-34b-hf
        codellama/CodeLlama-70b-Instruct-hf meta-llama/Llama-3.3-70B-Instruct openai/gpt-oss-20b openai/gpt-oss-120b
        deepseek-ai/DeepSeek-R1-Distill-Llama-70B
    """,
    (71, 1): "tiiuae/falcon-7b-instruct",
    (96, 8): "mistralai/Mistral-Large-Instruct-2407 mistralai/Mistral-Large-Instruct-2411 zai-org/GLM-4.5-FP8",
    (128, 8): "meta-llama/Meta-Llama-3.1-405B tiiuae/falcon-40b",
    (128, 128): "deepseek-ai/DeepSeek-R1 deepseek-ai/DeepSeek-R1-0528 deepseek-ai/DeepSeek-V3-0324",
    (232, 8): "tiiuae/falcon-180B-chat",
}
NAMED = [(model, each) for each, models in HEADS.items() for model in models.split()]


@pytest.mark.parametrize(("model", "wanted"), NAMED, ids=[model for model, _ in NAMED])
def test_the_heads_of_known_models_are_known(model, wanted):
    known = model_shapes.find(model)
    assert (known.query, known.key_value) == wanted


def test_every_model_of_the_table_is_looked_up_above():
    names = [model.rstrip("/").rpartition("/")[2] for model, _ in NAMED]
    unseen = [each.pattern for each, _ in model_shapes._tables()[0] if not any(each.match(name) for name in names)]
    assert unseen == []


UNKNOWN = """
    m my/Qwen2.5-7Bx Qwen/Qwen2.5-9B meta-llama/Llama-3.2-11B-Vision microsoft/Phi-4-multimodal-instruct
    zai-org/GLM-4.5-Air deepseek-ai/DeepSeek-V3.1 deepseek-ai/DeepSeek-R1-0528-Qwen3-8B
"""


@pytest.mark.parametrize("model", ["", *UNKNOWN.split()])
def test_a_name_that_only_begins_alike_is_unknown(model):
    assert model_shapes.find(model).query == 0


def shape(query, key_value):
    return model_shapes.Shape("m", query, key_value, None, is_dense=None, is_latent=False)


def test_key_value_heads_are_divided_or_repeated():
    assert [size for size in range(1, 9) if shape(24, 8).allows(size)] == [1, 2, 4, 8]
    assert [size for size in range(1, 9) if shape(40, 10).allows(size)] == [1, 2, 5]
    assert [size for size in range(1, 33) if shape(32, 8).allows(size)] == [1, 2, 4, 8, 16, 32]
