"""Reads the configuration file: one YAML document, every key known, every error named by its path."""

from __future__ import annotations

from pathlib import Path

import pydantic

from webhook import kubeyaml
from webhook.configs.documents import Config

__all__ = ["ConfigError", "load", "parse"]

_MAX_BYTES = 1024 * 1024


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
        raise ConfigError(f"{source}: holds a {type(document).__name__}; write an object with keys such as mode")
    try:
        return Config.model_validate(document)
    except pydantic.ValidationError as error:
        lines = [_explained(source, each["loc"], each["msg"], each["input"], each["type"]) for each in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _explained(source: str, location: tuple[int | str, ...], message: str, value: object, kind: str) -> str:
    field = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return f"{source}: {field}: is not a key of the configuration; check its spelling and place"
    text, shown = message.removeprefix("Value error, "), f"{value!r}: "
    if kind == "value_error" and isinstance(
        value, dict
    ):  # an object whose members contradict each other: the text names them
        shown = ""
    return f"{source}: {f'{field}: ' if field else ''}{shown}{text[0].lower()}{text[1:]}"
