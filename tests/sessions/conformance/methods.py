"""Each public method of the client: how it is called, and what its result has to be.

A method is in the table with a check, or with one sentence why there is none. A check calls the method against a
running Gateway with arguments that mean something, and asserts what came of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import tinker.lib.public_interfaces

__all__ = ["TABLE", "Method", "is_deprecated", "of_the_client", "shows", "without"]


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
        name: CLASS.METHOD.
        result: what is asserted, as a phrase.
        check: calls it; None when it is not done.
        local: whether the client answers it without the Gateway.
    """

    name: str
    result: str
    check: Callable | None = None
    local: bool = False


TABLE: dict[str, Method] = {}


def shows(result, *names, twins=True, local=False):
    """Enter a check for methods, and for the deprecated `_async` twin of each."""

    def enter(check):
        for name in names:
            for each in (name, f"{name}_async") if twins else (name,):
                TABLE[each] = Method(each, result, check, local)
        return check

    return enter


def without(name, why):
    """Enter a method that is not done, with the reason as a sentence."""
    TABLE[name] = Method(name, why)


def of_the_client():
    """Return the public methods of the client by their names.

    The rule of open-rl's page: in each module of `tinker.lib.public_interfaces`, of the class whose name is that of the
    module in CamelCase and ends in Client, the public callables of `dir()`.
    """
    found = {}
    for module in pkgutil.iter_modules(tinker.lib.public_interfaces.__path__):
        kind = "".join(each.capitalize() for each in module.name.split("_"))
        if kind.endswith("Client"):
            made = getattr(importlib.import_module(f"tinker.lib.public_interfaces.{module.name}"), kind)
            methods = ((name, getattr(made, name)) for name in dir(made) if not name.startswith("_"))
            found |= {f"{kind}.{name}": method for name, method in methods if callable(method)}
    return found


def is_deprecated(method):
    """Tell whether the client says that a method goes away."""
    return hasattr(method, "__deprecated__")
