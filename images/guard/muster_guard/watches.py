"""A watcher that calls back when a module has been imported, without importing it.

`wrapt` does this as well, but takes several times as long to import as this whole package.
"""

import sys

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than this whole package may
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Watcher"]


class Watcher:
    """A finder for `sys.meta_path` that leaves the finding to the others.

    Args:
        wanted: callbacks by the full name of a module. Each is called once with the module, as soon as that has run. An
            exception in a callback is printed and not raised, so that the guard never breaks a user's import.
    """

    def __init__(self, wanted: "Mapping[str, Callable[[object], None]]") -> None:
        self._wanted = dict(wanted)

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  # as importlib
        """See `importlib.abc.MetaPathFinder`."""
        callback = self._wanted.pop(name, None)
        if callback is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, callback)
                return spec
        return None


class _Loader:
    def __init__(self, inner, callback: "Callable[[object], None]") -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # as importlib
        self._inner = inner
        self._callback = callback

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_module(self, spec):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # as importlib
        return self._inner.create_module(spec)

    def exec_module(self, module) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # as importlib
        # The module gets its own loader back before it runs, because other code may read its source through it.
        module.__spec__.loader = module.__loader__ = self._inner
        self._inner.exec_module(module)
        try:
            self._callback(module)
        except Exception as error:  # noqa: BLE001  # see Watcher
            sys.stderr.write(f"muster: the guard cannot watch {module.__name__}: {error!r}\n")
