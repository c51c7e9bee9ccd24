"""The base class of all parts of the configuration file."""

from __future__ import annotations

from typing import Annotated

import pydantic
from pydantic import alias_generators

__all__ = ["Model", "Name", "Namespace"]

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Name = Annotated[str, pydantic.Field(max_length=253, pattern=_NAME)]
"""Of an object."""
Namespace = Annotated[str, pydantic.Field(max_length=63, pattern=_NAME)]


class Model(pydantic.BaseModel):
    """A part of the file: keys in camel case, unknown keys refused, immutable after reading."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, alias_generator=alias_generators.to_camel)
