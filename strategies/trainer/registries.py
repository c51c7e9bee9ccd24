"""What torchtune 0.6.1, its last release, brings: the configs of each recipe, and the builders of each model.

Source: `torchtune/_recipe_registry.py`, and `__all__` of the packages in `torchtune/models`.
"""

from __future__ import annotations

__all__ = ["BUILDERS", "CONFIGS"]

_CONFIGS = {
    "full_finetune_single_device": """
        llama2/7B_full_low_memory code_llama2/7B_full_low_memory llama3/8B_full_single_device
        llama3_1/8B_full_single_device llama3_2/1B_full_single_device llama3_2/3B_full_single_device
        mistral/7B_full_low_memory phi3/mini_full_low_memory phi4/14B_full_low_memory
        qwen2/7B_full_single_device qwen2/0.5B_full_single_device qwen2/1.5B_full_single_device
        qwen2_5/0.5B_full_single_device qwen2_5/1.5B_full_single_device qwen2_5/3B_full_single_device
        qwen2_5/7B_full_single_device llama3_2_vision/11B_full_single_device
    """,
    "full_finetune_distributed": """
        llama2/7B_full llama2/13B_full llama3/8B_full llama3_1/8B_full llama3_2/1B_full llama3_2/3B_full
        llama3/70B_full llama3_1/70B_full llama3_3/70B_full llama3_3/70B_full_multinode mistral/7B_full
        gemma/2B_full gemma/7B_full gemma2/2B_full gemma2/9B_full gemma2/27B_full phi3/mini_full
        phi4/14B_full qwen2/7B_full qwen2/0.5B_full qwen2/1.5B_full qwen2_5/0.5B_full qwen2_5/1.5B_full
        qwen2_5/3B_full qwen2_5/7B_full llama3_2_vision/11B_full llama3_2_vision/90B_full
    """,
    "lora_finetune_single_device": """
        llama2/7B_lora_single_device llama2/7B_qlora_single_device code_llama2/7B_lora_single_device
        code_llama2/7B_qlora_single_device llama3/8B_lora_single_device llama3_1/8B_lora_single_device
        llama3/8B_qlora_single_device llama3_2/1B_lora_single_device llama3_2/3B_lora_single_device
        llama3/8B_dora_single_device llama3/8B_qdora_single_device llama3_1/8B_qlora_single_device
        llama3_2/1B_qlora_single_device llama3_2/3B_qlora_single_device llama2/13B_qlora_single_device
        mistral/7B_lora_single_device mistral/7B_qlora_single_device gemma/2B_lora_single_device
        gemma/2B_qlora_single_device gemma/7B_lora_single_device gemma/7B_qlora_single_device
        gemma2/2B_lora_single_device gemma2/2B_qlora_single_device gemma2/9B_lora_single_device
        gemma2/9B_qlora_single_device gemma2/27B_lora_single_device gemma2/27B_qlora_single_device
        phi3/mini_lora_single_device phi3/mini_qlora_single_device phi4/14B_lora_single_device
        phi4/14B_qlora_single_device qwen2/7B_lora_single_device qwen2/0.5B_lora_single_device
        qwen2/1.5B_lora_single_device qwen2_5/0.5B_lora_single_device qwen2_5/1.5B_lora_single_device
        qwen2_5/3B_lora_single_device qwen2_5/7B_lora_single_device qwen2_5/14B_lora_single_device
        llama3_2_vision/11B_lora_single_device llama3_2_vision/11B_qlora_single_device
    """,
    "lora_dpo_single_device": """
        llama2/7B_lora_dpo_single_device llama3_1/8B_lora_dpo_single_device
    """,
    "lora_dpo_distributed": """
        llama2/7B_lora_dpo llama3_1/8B_lora_dpo
    """,
    "full_dpo_distributed": """
        llama3_1/8B_full_dpo
    """,
    "ppo_full_finetune_single_device": """
        mistral/7B_full_ppo_low_memory
    """,
    "lora_finetune_distributed": """
        llama2/7B_lora llama2/13B_lora llama2/70B_lora llama2/7B_qlora llama2/70B_qlora llama3/8B_dora
        llama3/70B_lora llama3_1/70B_lora llama3_3/70B_lora llama3_3/70B_qlora llama3/8B_lora
        llama3_1/8B_lora llama3_2/1B_lora llama3_2/3B_lora llama3_1/405B_qlora mistral/7B_lora gemma/2B_lora
        gemma/7B_lora gemma2/2B_lora gemma2/9B_lora gemma2/27B_lora phi3/mini_lora phi4/14B_lora
        qwen2/7B_lora qwen2/0.5B_lora qwen2/1.5B_lora qwen2_5/0.5B_lora qwen2_5/1.5B_lora qwen2_5/3B_lora
        qwen2_5/7B_lora qwen2_5/32B_lora qwen2_5/72B_lora llama3_2_vision/11B_lora llama3_2_vision/11B_qlora
        llama3_2_vision/90B_lora llama3_2_vision/90B_qlora
    """,
    "dev/lora_finetune_distributed_multi_dataset": """
        dev/11B_lora_multi_dataset
    """,
    "generate": """
        generation
    """,
    "dev/generate_v2": """
        llama2/generation_v2 llama3_2_vision/11B_generation_v2
    """,
    "dev/generate_v2_distributed": """
        llama3/70B_generation_distributed llama3_1/70B_generation_distributed
        llama3_3/70B_generation_distributed
    """,
    "dev/early_exit_finetune_distributed": """
        llama2/7B_full_early_exit
    """,
    "eleuther_eval": """
        eleuther_evaluation llama3_2_vision/11B_evaluation qwen2/evaluation qwen2_5/evaluation
        gemma/evaluation phi4/evaluation phi3/evaluation mistral/evaluation llama3_2/evaluation
        code_llama2/evaluation
    """,
    "quantize": """
        quantization
    """,
    "qat_distributed": """
        llama2/7B_qat_full llama3/8B_qat_full
    """,
    "qat_lora_finetune_distributed": """
        llama3/8B_qat_lora llama3_1/8B_qat_lora llama3_2/1B_qat_lora llama3_2/3B_qat_lora
    """,
    "knowledge_distillation_single_device": """
        qwen2/1.5_to_0.5B_KD_lora_single_device llama3_2/8B_to_1B_KD_lora_single_device
    """,
    "knowledge_distillation_distributed": """
        qwen2/1.5_to_0.5B_KD_lora_distributed llama3_2/8B_to_1B_KD_lora_distributed
    """,
}
_BUILDERS = {
    "clip": """
        clip_mlp clip_text_encoder clip_text_vit_large_patch14 clip_tokenizer clip_vision_encoder
    """,
    "code_llama2": """
        code_llama2_13b code_llama2_70b code_llama2_7b lora_code_llama2_13b lora_code_llama2_70b
        lora_code_llama2_7b qlora_code_llama2_13b qlora_code_llama2_70b qlora_code_llama2_7b
    """,
    "flux": """
        flux_1_autoencoder
    """,
    "gemma": """
        gemma gemma_2b gemma_7b gemma_tokenizer lora_gemma lora_gemma_2b lora_gemma_7b qlora_gemma_2b
        qlora_gemma_7b
    """,
    "gemma2": """
        gemma2 gemma2_27b gemma2_2b gemma2_9b gemma_tokenizer lora_gemma2 lora_gemma2_27b lora_gemma2_2b
        lora_gemma2_9b qlora_gemma2_27b qlora_gemma2_2b qlora_gemma2_9b
    """,
    "llama2": """
        llama2 llama2_13b llama2_70b llama2_7b llama2_classifier llama2_reward_7b llama2_tokenizer
        lora_llama2 lora_llama2_13b lora_llama2_70b lora_llama2_7b lora_llama2_classifier
        lora_llama2_reward_7b qlora_llama2_13b qlora_llama2_70b qlora_llama2_7b qlora_llama2_reward_7b
    """,
    "llama3": """
        base_llama_tp_plan llama3 llama3_70b llama3_8b llama3_tokenizer lora_llama3 lora_llama3_70b
        lora_llama3_8b qlora_llama3_70b qlora_llama3_8b
    """,
    "llama3_1": """
        llama3_1 llama3_1_405b llama3_1_70b llama3_1_8b lora_llama3_1 lora_llama3_1_405b lora_llama3_1_70b
        lora_llama3_1_8b qlora_llama3_1_405b qlora_llama3_1_70b qlora_llama3_1_8b
    """,
    "llama3_2": """
        llama3_2 llama3_2_1b llama3_2_3b lora_llama3_2 lora_llama3_2_1b lora_llama3_2_3b qlora_llama3_2_1b
        qlora_llama3_2_3b
    """,
    "llama3_2_vision": """
        llama3_2_vision_11b llama3_2_vision_90b llama3_2_vision_decoder llama3_2_vision_encoder
        llama3_2_vision_transform lora_llama3_2_vision_11b lora_llama3_2_vision_90b
        lora_llama3_2_vision_decoder lora_llama3_2_vision_encoder qlora_llama3_2_vision_11b
        qlora_llama3_2_vision_90b
    """,
    "llama3_3": """
        llama3_3_70b lora_llama3_3_70b qlora_llama3_3_70b
    """,
    "mistral": """
        lora_mistral lora_mistral_7b lora_mistral_classifier lora_mistral_reward_7b mistral mistral_7b
        mistral_classifier mistral_reward_7b mistral_tokenizer qlora_mistral_7b qlora_mistral_reward_7b
    """,
    "phi3": """
        lora_phi3 lora_phi3_mini phi3 phi3_hf_to_tune phi3_mini phi3_mini_tokenizer phi3_tune_to_hf
        qlora_phi3_mini
    """,
    "phi4": """
        lora_phi4_14b phi4_14b phi4_tokenizer qlora_phi4_14b
    """,
    "qwen2": """
        lora_qwen2 lora_qwen2_0_5b lora_qwen2_1_5b lora_qwen2_7b qwen2 qwen2_0_5b qwen2_1_5b qwen2_7b
        qwen2_hf_to_tune qwen2_tokenizer qwen2_tune_to_hf
    """,
    "qwen2_5": """
        lora_qwen2_5_0_5b lora_qwen2_5_14b_base lora_qwen2_5_14b_instruct lora_qwen2_5_1_5b_base
        lora_qwen2_5_1_5b_instruct lora_qwen2_5_32b_base lora_qwen2_5_32b_instruct lora_qwen2_5_3b
        lora_qwen2_5_72b_base lora_qwen2_5_72b_instruct lora_qwen2_5_7b_base lora_qwen2_5_7b_instruct
        qwen2_5_0_5b qwen2_5_14b_base qwen2_5_14b_instruct qwen2_5_1_5b_base qwen2_5_1_5b_instruct
        qwen2_5_32b_base qwen2_5_32b_instruct qwen2_5_3b qwen2_5_72b_base qwen2_5_72b_instruct
        qwen2_5_7b_base qwen2_5_7b_instruct qwen2_5_tokenizer
    """,
    "t5": """
        t5_encoder t5_tokenizer t5_v1_1_xxl_encoder
    """,
}

CONFIGS = {config: recipe for recipe, configs in _CONFIGS.items() for config in configs.split()}
"""The recipe for which each config was written."""
BUILDERS = {family: frozenset(names.split()) for family, names in _BUILDERS.items()}
"""The functions of `torchtune.models.FAMILY` that build a model, a tokenizer or a part of one."""
