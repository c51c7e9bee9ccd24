"""Trainer and JobSet: their CustomResourceDefinitions, and what Trainer's own code answers, from Go modules.

The module proxy has every release. Trainer's `next` is its newest release with what `trainer_next.yaml` lays over it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import yaml

from e2e.cluster import builds, commands, places, toolchains
from e2e.cluster.errors import ClusterError
from muster.strategies import upstream
from tools.upstream import crd_tables
from tools.upstream.table_files import Table

__all__ = ["JOBSET", "TRAINER", "GoModule", "answers", "folder"]

_OPENAPI = "api/openapi-spec/v3/apis__apps__v1_openapi.json"
_NEXT = Path(__file__).with_name("trainer_next.yaml")
_PROGRAM = Path(__file__).with_name("golden")
_PREDICTIONS = ("tests/cli/test_predictions_by_version.py", "tests/cli/test_predictions.py")
_TAGS = ("", "older", "older,first")
"""Build tags of the few lines in which Trainers differ in Go; of an older Trainer more are needed."""


def folder(module: str) -> Path:
    """Return where Go keeps a module, `PATH` as the suites pin it or `PATH@VERSION`; it is fetched when not there.

    Raises:
        ClusterError: there is no Go toolchain, or the module proxy does not have the version.
    """
    return builds.module_folder("kubernetes", module)


@dataclass(frozen=True, slots=True)
class GoModule:
    """A package that is a Go module.

    Attributes:
        name: of the package.
        path: of the module.
        definitions: files of CustomResourceDefinitions.
    """

    name: str
    path: str
    definitions: tuple[str, ...]

    shared: ClassVar[tuple[str, ...]] = ()
    mentions: ClassVar[str] = "."

    def tables(self, version: str, beside: Sequence[str] = ()) -> dict[str, Table]:
        """Return the tables of a version.

        Raises:
            ClusterError: it cannot be fetched.
        """
        assert not beside, "a Go module says itself what it needs"
        release = upstream.versions(self.name)[-1] if version == "next" else version
        root = folder(f"{self.path}@v{release}")
        rows = yaml.safe_load(_NEXT.read_text(encoding="utf-8")) if version == "next" else ()
        files = [root / each for each in self.definitions]
        return {"schemas": crd_tables.table(files, folder("k8s.io/kubernetes") / _OPENAPI, rows)}

    def shown(self, table: Table) -> Table:
        """Return a table as its differences are printed: by member."""
        return crd_tables.members(table)

    def broken(self, version: str, beside: Sequence[str] = ()) -> Iterator[str]:
        """Yield nothing: there are no rows."""
        del version, beside
        return iter(())


class Trainer(GoModule):
    """Trainer, whose behaviour is written by hand, and proven by what its own code answers."""

    __slots__ = ()

    def broken(self, version: str, beside: Sequence[str] = ()) -> Iterator[str]:
        """Yield the answers that Muster does not predict; they are asked for and written to tests/golden first."""
        del beside
        answers(version, places.REPOSITORY / "tests" / "golden")
        argv = [sys.executable, "-m", "pytest", "-q", "--no-header", "-rf", "--tb=line", *_PREDICTIONS]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=places.REPOSITORY)
        failed = re.findall(r"^(?:FAILED|ERROR) (.*)$", done.stdout, re.MULTILINE)
        yield from failed or ([done.stdout[-500:]] if done.returncode else [])


TRAINER = Trainer(
    "trainer",
    "github.com/kubeflow/trainer/v2",
    tuple(
        f"manifests/base/crds/trainer.kubeflow.org_{plural}.yaml"
        for plural in ("trainjobs", "clustertrainingruntimes", "trainingruntimes")
    ),
)
JOBSET = GoModule("jobset", "sigs.k8s.io/jobset", ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",))


def answers(version: str, into: Path) -> str:
    """Write what the code of a Trainer makes of the golden cases; return what was written.

    Args:
        version: of Trainer.
        into: the folder that has `torch/` and `torchtune/`.

    Raises:
        ClusterError: the program cannot be built with any tags, or Trainer's code ended with an error.
    """
    behaviour = cast("Mapping[str, str]", upstream.data("trainer", "behaviour", version))
    flags = [f"-patches={behaviour['patches']}", f"-out={into}"]
    flags += ["-whole"] if version == upstream.shipped("trainer") else []
    flags += ["-injects"] if "envInjection" in json.dumps(upstream.data("trainer", "schemas", version)) else []
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(_PROGRAM, work, dirs_exist_ok=True)
        Path(work, "go.mod").write_text(f"module muster.dev/golden\n\ngo 1.26.0\n\nrequire {TRAINER.path} v{version}\n")
        run = functools.partial(commands.run, folder=Path(work), environment=environment)
        run([toolchains.find(), "mod", "tidy", "-e"])
        for tags in _TAGS:
            with contextlib.suppress(ClusterError):
                run([toolchains.find(), "build", f"-tags={tags}", "-o", "golden", "."])
                break
        return run([Path(work, "golden"), f"-manifests={places.REPOSITORY / 'manifests' / 'runtimes'}", *flags])
