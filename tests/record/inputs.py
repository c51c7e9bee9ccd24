"""Writes the inputs of a checkout into a folder: its corpus, its manifests, cases of others, and drawn reviews.

    files/NAME.yaml      documents, as `muster explain` reads them
    reviews/NAME.json    an AdmissionReview; NAME.yaml beside it holds the objects of its cluster, where there are any

It runs in the checkout that makes the record, with that checkout as working directory and first on PYTHONPATH, because
the fuzzer draws from its corpus.

    python inputs.py TARGET SEEDS FOLDER...      FOLDER: further folders of documents
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fuzz import cases, drawing

__all__ = ["write"]

_FOLDERS = ("tests/corpus/cases", "manifests", "examples")
_SEED = 1


def write(folder: Path, seeds: int, more: Iterable[Path] = ()) -> None:
    """Write all inputs into a new folder: documents, those of `more` among them, and the first `seeds` drawn cases."""
    for kind in ("files", "reviews"):
        (folder / kind).mkdir(parents=True)
    for name, path in _files([*map(Path, _FOLDERS), *more]):
        (folder / "files" / f"{name}.yaml").write_bytes(path.read_bytes())
    for number in range(seeds):
        case = drawing.draw(_SEED, number)
        target = folder / "reviews" / f"{number:06}"
        target.with_suffix(f".{case.kind}.json").write_bytes(cases.body_of(case.review))
        if case.cluster:
            documents = (cases.body_of(each) for each in case.cluster)
            target.with_suffix(".yaml").write_bytes(b"\n---\n".join(documents))


def _files(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            if "chart" not in path.parts:  # templates of helm are not YAML
                yield f"{folder.name}__{'__'.join(path.relative_to(folder).with_suffix('').parts)}", path


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), map(Path, sys.argv[3:]))
