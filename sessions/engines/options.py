"""What a command line says of an engine, as arguments of its constructor, checked before anything is loaded."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from muster.sessions.refusals import Refused

__all__ = ["REFUSED", "arguments", "maker", "sentence"]

REFUSED = 2
"""The exit status of an engine that cannot be made of what it was given; the last line of its log says why."""
_DTYPES = ("float32", "bfloat16", "float16", "float64")
_LONGEST = 400


def maker(name: str, of: str) -> Callable[..., Any]:
    """Return what makes an engine. Raises `Refused` where there is none of this name.

    Args:
        name: `MODULE:CLASS`.
        of: `trainer` or `sampler`.
    """
    module, _, kind = name.partition(":")
    try:
        made: Callable[..., Any] = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refused(f"--{of}: {name[:80]}: {error}: pass MODULE:CLASS of an engine that this Python has") from error
    return made


def arguments(make: Callable[..., Any], given: Sequence[str], of: str) -> dict[str, Any]:
    """Return options as named arguments. Raises `Refused` for one that is unknown, of another type, or given twice.

    Args:
        make: a class or a function, whose first parameter is the base and no option.
        given: `KEY=VALUE`, where a value is JSON, or a text as it is.
        of: `trainer` or `sampler`.
    """
    known = _known(make)
    open_ = any(each.kind is each.VAR_KEYWORD for each in known)
    hints = {each.name: each.annotation for each in known if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}}
    found: dict[str, Any] = {}
    for each in given:
        name, _, text = each.partition("=")
        if name not in hints and not open_:
            instead = f"pass {', '.join(hints)}" if hints else "leave it out"
            raise Refused(f"--{of}-option: {name[:80]}: {make.__name__} does not take it: {instead}")
        if name in found:
            raise Refused(f"--{of}-option: {name}: {text[:80]}: is given twice: leave one of them out")
        try:
            found[name] = _value(hints.get(name, inspect.Parameter.empty), text)
        except ValueError as error:
            raise Refused(f"--{of}-option: {name}: {text[:80]}: {error}") from error
    return found


def sentence(error: Exception) -> str:
    """Return why an engine cannot be made, in one line."""
    text = " ".join(str(error).split())
    told = text if isinstance(error, Refused) else f"{type(error).__name__}: {text}"
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"


def _known(make: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters after the first; their types are texts where a type checker alone can read them."""
    try:
        signature = inspect.signature(make, eval_str=True)
    except NameError:
        signature = inspect.signature(make)
    return list(signature.parameters.values())[1:]


def _value(hint: Any, text: str) -> Any:
    """Return a value of a type. Raises `ValueError` with what to pass instead."""
    if hint is str:
        return text
    if hint is inspect.Parameter.empty or isinstance(hint, str):
        return _json(text)
    torch = sys.modules.get("torch")
    if torch is not None and hint is torch.dtype:
        if text not in _DTYPES:
            raise ValueError(f"is not a type of weights: pass {', '.join(_DTYPES)}")
        return getattr(torch, text)
    try:
        return TypeAdapter(hint).validate_python(_json(text), strict=True)
    except PydanticSchemaGenerationError:  # of a type that only the engine knows
        return _json(text)
    except ValidationError as error:
        kind = hint.__name__ if isinstance(hint, type) else hint
        raise ValueError(f"is not of its type: pass {kind}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
