"""The old import name of `muster.strategies`, which was `strategies`; this module goes with the next release."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["allow"]

_OLD, _NEW = "strategies", "muster.strategies"


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == _OLD else None

    def exec_module(self, module: ModuleType) -> None:
        text = f"`{_OLD}` is `{_NEW}` now: write `from {_NEW} import ...`; the next release has no `{_OLD}`"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        new = importlib.import_module(_NEW)
        # A module without a path: its modules would be read a second time, as other classes of the same names.
        vars(module).update({name: getattr(new, name) for name in new.__all__}, __all__=new.__all__)


_FINDER = _Finder()


def allow() -> None:
    """Let the old name be imported from now on, where no package of anybody has it."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)  # behind every other finder
