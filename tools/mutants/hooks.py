"""The import hook of a trial: one module is compiled from mutated source, all others are left to Python.

It needs the standard library only, for it also runs in the programs that tests start.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

__all__ = ["install", "install_from", "module_of"]


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file as ever, but with other source, and neither reads nor writes a cache of bytecode."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.get_filename(fullname), "exec", dont_inherit=True)


class _Finder:
    """Finds the mutated module before anything else does."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where the module comes from, or None for every other module."""
        if fullname != self._name:
            return None
        inside = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        loader = _Loader(fullname, str(self._path), self._source)
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=loader, submodule_search_locations=inside
        )


def module_of(file: str) -> str:
    """Return the dotted name of a file below the root."""
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def install(root: Path, file: str, source: bytes) -> None:
    """Let `file` below `root` be imported from `source` in this process."""
    sys.meta_path.insert(0, _Finder(module_of(file), root / file, source))


def install_from(place: str) -> None:
    """Do the same with what is written in a JSON file: `root`, `file` and `source`."""
    told = json.loads(Path(place).read_text())
    install(Path(told["root"]), told["file"], told["source"].encode())
