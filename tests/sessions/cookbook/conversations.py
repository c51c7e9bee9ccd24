"""Supervised fine-tuning by the cookbook on the conversations that its wheel holds. `conversations.py BASE URL LOG`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import tinker_cookbook
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig


def main(base, url, log):
    common = ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=base, renderer_name="role_colon", max_length=512, batch_size=16
    )
    file = Path(tinker_cookbook.__file__).parent / "example_data" / "conversations.jsonl"
    config = train.Config(
        log_path=log,
        model_name=base,
        recipe_name="conversations",
        renderer_name="role_colon",
        dataset_builder=FromConversationFileBuilder(file_path=str(file), test_size=16, common_config=common),
        learning_rate=2e-2,
        num_epochs=2,
        lora_rank=16,
        base_url=url,
        eval_every=4,
        save_every=4,
    )
    asyncio.run(train.main(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
