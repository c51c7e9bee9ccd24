"""Adapters to publish in tests, without torch."""

from __future__ import annotations

import struct

from muster_weights import adapters, folders
from tests.weights.versions import RUN

CONFIG = {"r": 2, "lora_alpha": 4, "target_modules": {"q_proj", "o_proj"}}
MATRICES = {"base_model.model.q_proj.lora_A.weight": (2, 3), "base_model.model.q_proj.lora_B.weight": (3, 2)}


def matrices(value=1.0, shapes=MATRICES, dtype="float32"):
    for name, shape in shapes.items():
        count = shape[0] * shape[1]
        yield name, dtype, shape, memoryview(struct.pack(f"{count}f", *([value] * count)))


def published(root, version=1, run=RUN, config=CONFIG, **rest):
    return folders.publish(root, run, version, adapters.packed(config, matrices(**rest)))
