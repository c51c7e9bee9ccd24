"""Versions to publish in tests, without torch."""

from __future__ import annotations

import struct

from muster_weights import folders

RUN = "run-a"
SHAPES = {"embed.weight": (2, 3), "head.weight": (3,)}


def tensors(value=1.0, shapes=SHAPES):
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        yield name, "float32", shape, memoryview(struct.pack(f"{count}f", *([value] * count)))


def published(root, version=1, run=RUN, **rest):
    return folders.publish(root, run, version, tensors(**rest))


def place(root, told):
    return root / told.run / f"v{told.version:09d}"
