"""Makes the asynchronous client of `kubernetes` importable without the synchronous one, which nobody here uses.

The package's own `__init__` imports both, and with the other one requests, urllib3 and oauthlib: 7 MiB that stay.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

__all__ = ["leave_out_the_synchronous"]

_PACKAGE = "kubernetes"


def leave_out_the_synchronous() -> None:
    """Put the package into place without running its `__init__`, which runs when somebody asks for what it defines."""
    spec = importlib.util.find_spec(_PACKAGE) if _PACKAGE not in sys.modules else None
    if spec is None or spec.loader is None:
        return  # it is there as a whole, or missing, which its import tells
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def complete(name: str) -> Any:
        if f"{_PACKAGE}.{name}" in sys.modules or (name.startswith("__") and name != "__version__"):
            raise AttributeError(name)  # a module that is being imported is found without the package
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, name)

    vars(package)["__getattr__"] = complete
    sys.modules[_PACKAGE] = package
