"""Reads the configuration file: one YAML document, every key known, every error named by its path."""

from __future__ import annotations

from pathlib import Path

import pydantic

from muster.webhook import kubeyaml
from muster.webhook.configs import wording
from muster.webhook.configs.documents import Config

__all__ = ["ConfigError", "load", "parse"]

_MAX_BYTES = 1024 * 1024
_CALLED = {list: "a list", str: "a text", bool: "true or false"}


class ConfigError(ValueError):
    """The file cannot be used; the message names file, key path, value and the expected value."""


def load(path: Path | None) -> Config:
    """Read a file; None is the default configuration.

    Raises:
        ConfigError: it is unreadable or not YAML, or has unknown keys or wrong values; each is named with its path.
    """
    if path is None:
        return Config()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_BYTES} bytes; a configuration file must be smaller")
    return parse(text, str(path))


def parse(text: bytes, source: str) -> Config:
    """Read the text of a file called `source`; an empty one is the default configuration.

    Raises:
        ConfigError: as `load`.
    """
    try:
        document = kubeyaml.load(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except kubeyaml.YamlError as error:
        raise ConfigError(f"{source}: line {error.line}: {error}") from error
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise ConfigError(
            f"{source}: is {_CALLED.get(type(document), 'a number')}; write an object with keys such as mode"
        )
    try:
        return Config.model_validate(document)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(wording.explained(source, Config, each) for each in error.errors())) from error
