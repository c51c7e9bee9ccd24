"""Packages of Python: a version is installed in a folder of its own, over the libraries of TRL's or vLLM's folder.

A program of `programs/` reads the tables out of the package itself, run by the python that has those libraries.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from muster.strategies import upstream
from tools.upstream import row_proofs, vllm_columns
from tools.upstream.table_files import Json, Table

__all__ = ["AcceleratePackage", "FailedError", "PythonPackage", "TunePackage", "VllmPackage"]

_REPOSITORY = Path(__file__).resolve().parents[2]
_SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


class FailedError(Exception):
    """A version cannot be installed, or its own code does not run; the message has what pip or it said."""


@dataclass(frozen=True, slots=True)
class PythonPackage:
    """A package of Python.

    Attributes:
        name: of the package, and of what it is imported as.
        python: the variable that names the python whose libraries it stands on.
        wheels: distributions that have it, the preferred one first.
        mentions: a regular expression that finds the corpus cases which it may decide.
    """

    name: str
    python: str
    wheels: tuple[str, ...]
    mentions: str

    shared: ClassVar[tuple[str, ...]] = ()

    def broken(self, version: str, beside: Sequence[str] = ()) -> Iterator[str]:
        """Yield the rows that do not hold."""
        yield from row_proofs.broken(self.name, version, lambda argv, asked: self.run(version, argv, asked, beside))

    def tables(self, version: str, beside: Sequence[str] = ()) -> dict[str, Table]:
        """Return the tables of a version, by name.

        Raises:
            FailedError: see there.
        """
        printed = self.run(version, ["-m", f"tools.upstream.programs.print_{self.name}"], self.asked(), beside)
        return cast("dict[str, Table]", json.loads(printed))

    def asked(self) -> object:
        """Return what the program has to know."""
        return None

    def shown(self, table: Table) -> Table:
        """Return a table as its differences are printed: as it is."""
        return table

    def run(self, version: str, argv: Sequence[str | Path], asked: object = None, beside: Sequence[str] = ()) -> str:
        """Return what a program prints where this version is installed.

        Args:
            version: of the package.
            argv: what the python is called with.
            asked: what it reads, as JSON.
            beside: requirements of further packages that the version needs in other versions: `transformers==5.24.0`.
        """
        python = shutil.which(os.environ.get(self.python, ""))
        if python is None:
            raise FailedError(f"{self.python} must name a python; `make upstream` does")
        folder = self._folder(python, version, beside)
        with tempfile.TemporaryDirectory() as home:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": home,
                "PYTHONPATH": f"{folder}:{_REPOSITORY}",
                **_SETTINGS,
            }
            return _ran([python, *map(str, argv)], environment, json.dumps(asked), home)

    def _folder(self, python: str, version: str, beside: Sequence[str]) -> str:
        """Return the folder that holds a version; "" where the python itself has it."""
        asked = f"from importlib import metadata; print(metadata.version({self.name!r}))"
        if not beside and _ran([python, "-c", asked], dict(os.environ)).strip().partition("+")[0] == version:
            return ""
        cache = Path(os.environ["MUSTER_CACHE"]) / "upstream"
        folder = cache / "-".join([self.name, version, *(each.replace("==", "-") for each in beside)])
        if not folder.exists():
            work = folder.with_name(f".{folder.name}")
            shutil.rmtree(work, ignore_errors=True)
            self._install(python, version, beside, work)
            self.settle(work, version)
            work.rename(folder)
        return str(folder)

    def _install(self, python: str, version: str, beside: Sequence[str], into: Path) -> None:
        refusals = []
        for wheel in self.wheels:
            try:
                _ran([python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target",
                      str(into), f"{wheel}=={version}", *beside], dict(os.environ))  # fmt: skip
            except FailedError as error:
                refusals.append(str(error))
            else:
                return
        raise FailedError("\n".join(refusals))

    def settle(self, folder: Path, version: str) -> None:
        """Make an installed version fit for a machine without a GPU."""


class TunePackage(PythonPackage):
    """torchtune, of whose configs the items are read that rows ask for: those that the table has."""

    __slots__ = ()

    def asked(self) -> list[str]:
        """Return the items."""
        table = cast("dict[str, dict[str, dict[str, Json] | None]]", upstream.data(self.name, "configs"))
        return sorted({item for config in table.values() for item in config["items"] or ()})


class AcceleratePackage(PythonPackage):
    """accelerate, of whose options those are listed apart that say where processes run: those that the table has."""

    __slots__ = ()

    def asked(self) -> list[str]:
        """Return the options."""
        table = cast("dict[str, dict[str, str]]", upstream.data(self.name, "launchers"))
        return table["trl"]["options"].split()


class VllmPackage(PythonPackage):
    """vLLM, whose older versions are known too: by the words and flags that each has."""

    __slots__ = ()

    shared = ("words", "elsewhere")

    def tables(self, version: str, beside: Sequence[str] = ()) -> dict[str, Table]:
        """Return the tables of a version, and those of all versions with its column."""
        found = super().tables(version, beside)
        known = {name: cast("Table", upstream.data(self.name, name)) for name in ("flags", *self.shared)}
        others = vllm_columns.elsewhere(
            known["elsewhere"], version, _spellings(found["flags"]), _spellings(known["flags"])
        )
        return {
            "flags": found["flags"],
            "words": vllm_columns.words(known["words"], version, found["words"]),
            "elsewhere": others,
        }

    def settle(self, folder: Path, version: str) -> None:
        """Call it a build for CPUs, which vLLM reads from the version of a distribution called vllm."""
        for each in folder.glob("vllm-*.dist-info"):
            shutil.rmtree(each)
        metadata = folder / f"vllm-{version}+cpu.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")


def _spellings(table: Table) -> set[str]:
    flags = cast("dict[str, dict[str, list[str]]]", table["flags"])
    return {word for name, entry in flags.items() for word in entry.get("spellings", [f"--{name}"])}


def _ran(argv: Sequence[str], environment: dict[str, str], asked: str = "", cwd: str | None = None) -> str:
    done = subprocess.run(
        argv, env=environment, cwd=cwd, input=asked, capture_output=True, text=True, timeout=1_800, check=False
    )
    if done.returncode:
        raise FailedError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-1_500:]}")
    return done.stdout
