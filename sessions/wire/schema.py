"""The protobuf messages of the Tinker API, from the published `tinker` wheel.

The wheel has the generated module only (`tinker/proto/tinker_public_pb2.py`, Apache-2.0). It is loaded alone: importing
the package `tinker` would import its client, transformers and torch with it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

__all__ = ["messages"]


def _load() -> ModuleType:
    package = importlib.util.find_spec("tinker")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the package tinker is missing; install muster-admission[sessions]")
    source = Path(package.submodule_search_locations[0]) / "proto" / "tinker_public_pb2.py"
    spec = importlib.util.spec_from_file_location("muster.sessions.wire.tinker_public_pb2", source)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{source}: is not in this version of tinker; install the pinned one")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


messages = _load()
"""`tinker_public.proto` as Python classes, such as `messages.ForwardBackwardRequest`."""
