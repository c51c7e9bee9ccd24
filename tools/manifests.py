"""`make manifests`: check every TrainJob, JobSet and runtime of upstream's Go modules, and compare with judgements.

`manifests.tsv` beside this file holds the findings that somebody has judged by upstream's sources: `true`, `false`, or
`unhelpful` (true, and nobody needs it). A finding that nobody has judged fails, and so does one that is gone: the file
is what is known of Muster's words today. Manifests are files of YAML and JSON, and blocks of YAML in pages of Markdown.

Usage:
    python -m tools.manifests [--write] [--quick]: with --write, the file is written anew, and new findings stand there
    as `unjudged`; with --quick, only the modules that the cluster of the tests is built from are looked at.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from muster.webhook.cli.main import main as muster

__all__ = ["Finding", "Seen", "differences", "figures", "judged", "look", "main", "manifests"]

MODULES = (
    "github.com/kubeflow/trainer/v2@v2.0.1",
    "github.com/kubeflow/trainer/v2@v2.1.0",
    "github.com/kubeflow/trainer/v2@v2.2.0",
    "github.com/kubeflow/trainer/v2@v2.3.0",
    "github.com/kubeflow/training-operator@v1.9.3",
    "github.com/kubeflow/mpi-operator@v0.6.0",
    "sigs.k8s.io/jobset@v0.8.2",
    "sigs.k8s.io/jobset@v0.10.1",
    "sigs.k8s.io/jobset@v0.12.0",
    "sigs.k8s.io/kueue@v0.17.0",
)
OF_THE_CLUSTER = ("github.com/kubeflow/trainer/v2@v2.3.0", "sigs.k8s.io/jobset@v0.12.0")
JUDGED = Path(__file__).with_suffix(".tsv")
VERDICTS = ("true", "false", "unhelpful")
UNJUDGED = "unjudged"
_RUNTIMES = "manifests/base/runtimes"
_KINDS = re.compile(r"^\s*\"?kind\"?: *\"?(TrainJob|JobSet|ClusterTrainingRuntime|TrainingRuntime)\b", re.MULTILINE)
_BLOCK = re.compile(r"^( *)```+ *ya?ml[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


class MissingError(Exception):
    """A module could not be downloaded; the message says which and why."""


class Finding(NamedTuple):
    """What Muster says of one document of a manifest, and where: the key of a judgement."""

    file: str
    document: str
    rule: str
    severity: str
    field: str


@dataclass(frozen=True)
class Seen:
    """What was found in all manifests.

    Attributes:
        manifests: how many files and blocks there are.
        documents: how many jobs and runtimes they hold.
        findings: what Muster says of them, with its words, each once.
    """

    manifests: int
    documents: int
    findings: Mapping[Finding, str]


def folder(module: str) -> Path:
    """Return where Go has a module, which is downloaded first if need be.

    Raises:
        MissingError: it cannot be had.
    """
    words = ["go", "mod", "download", "-json", module]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
    answer = json.loads(done.stdout or "{}")
    if "Dir" not in answer:
        raise MissingError(f"{module}: {answer.get('Error') or done.stderr.strip()}")
    return Path(answer["Dir"])


def manifests(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of a module, and of each block of a page, with a job or a runtime."""
    for path in sorted(each for each in root.rglob("*") if each.suffix in (".yaml", ".yml", ".json", ".md")):
        text = path.read_text(errors="replace") if path.is_file() else ""
        for place, each in _blocks(text) if path.suffix == ".md" else (("", text),):
            if _KINDS.search(each) and "kind: CustomResourceDefinition" not in each and "{{" not in each:
                yield f"{path.relative_to(root)}{place}", each


def _blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of a page that are YAML, each with its number."""
    for number, (indent, block) in enumerate(_BLOCK.findall(page), 1):
        text = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        with contextlib.suppress(yaml.YAMLError):
            list(yaml.safe_load_all(text))
            yield f"#{number}", text


def look(modules: Sequence[str]) -> Seen:
    """Check all manifests of the modules.

    Raises:
        MissingError: a module cannot be had.
    """
    count, documents = 0, 0
    found: dict[Finding, str] = {}
    for module in modules:
        root = folder(module)
        own = root / _RUNTIMES
        for name, text in manifests(root):
            count += 1
            documents += len(_KINDS.findall(text))
            for case in check(text, [own] if own.is_dir() else []):
                where = f"{case.get('kind', '')}/{case.get('name') or case.get('document')}"
                if "unreadable" in case:
                    found[Finding(f"{module}/{name}", where, "unreadable", "error", "")] = case["unreadable"]
                for each in case.get("findings") or ():
                    key = Finding(f"{module}/{name}", where, each["rule"], each["severity"], each["field"])
                    found.setdefault(key, each["message"])
    return Seen(count, documents, found)


def check(text: str, runtimes: Sequence[Path]) -> list[dict[str, Any]]:
    """Return what `muster check -o json` says of a text."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "manifest.yaml"
        path.write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            muster(["check", "-o", "json", *(f"--runtimes={each}" for each in runtimes), str(path)])
    answer: list[dict[str, Any]] = json.loads(out.getvalue() or "[]")
    return answer


def judged(text: str) -> dict[Finding, tuple[str, str]]:
    """Return the judgements of a file: of each finding the verdict and the reason."""
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {Finding(*row[:5]): (row[5], row[6]) for row in rows}


def differences(seen: Mapping[Finding, str], known: Mapping[Finding, tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each finding that is not judged, and for each judgement whose finding is gone."""
    for each, message in seen.items():
        if known.get(each, (UNJUDGED,))[0] not in VERDICTS:
            yield f"not judged: {each.file} {each.document} {each.severity}: {each.field}: {message} ({each.rule})"
    for each in known.keys() - seen.keys():
        yield f"gone: {each.file} {each.document} {each.severity}: {each.field} ({each.rule})"


def figures(seen: Seen, known: Mapping[Finding, tuple[str, str]]) -> str:
    """Return the figures in one line."""
    counts = Counter(known.get(each, (UNJUDGED,))[0] for each in seen.findings)
    verdicts = ", ".join(f"{counts[each]} {each}" for each in (*VERDICTS, UNJUDGED) if each != UNJUDGED or counts[each])
    return f"{seen.manifests} manifests, {seen.documents} documents, {len(seen.findings)} findings: {verdicts}"


def main() -> int:
    """Compare, and say what differs; 1 where something does, 2 where a module cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--write", action="store_true")
    which.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    modules = OF_THE_CLUSTER if arguments.quick else MODULES
    every = judged(JUDGED.read_text())
    known = {each: every[each] for each in every if each.file.startswith(tuple(f"{module}/" for module in modules))}
    try:
        seen = look(modules)
    except MissingError as missing:
        sys.stderr.write(f"manifests: {missing}\n")
        return 2
    if arguments.write:
        head = [line for line in JUDGED.read_text().splitlines() if line.startswith("#")]
        rows = ["\t".join((*each, *known.get(each, (UNJUDGED, text)))) for each, text in sorted(seen.findings.items())]
        JUDGED.write_text("\n".join([*head, *rows]) + "\n")
    lines = [] if arguments.write else list(differences(seen.findings, known))
    sys.stdout.write("".join(f"{line}\n" for line in [*lines, figures(seen, known)]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
