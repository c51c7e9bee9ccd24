"""The journal of a count: which cases of a seed were run at a commit, so that it can be stopped and goes on later.

It has one line of JSON for each batch. A line that was torn when its process was killed does not count, and its cases
are run again.
"""

from __future__ import annotations

import collections
import hashlib
import json
import subprocess
import urllib.parse

__all__ = ["Journal", "version_of"]

_COUNTS = ("cases", "requests", "bytes", "seconds", "processor")


class Journal:
    """The journal of a seed at a commit.

    Attributes:
        path: the file.
        batches: what was run, in the order of its end.
    """

    def __init__(self, folder, version, seed):
        self.path = folder / version / f"{urllib.parse.quote(seed, safe='')}.jsonl"
        self.batches = list(_read(self.path))

    def note(self, batch):
        """Add a batch: `first` and `end`, counts, and `faults`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a") as file:
            file.write(f"{chr(10) * torn}{json.dumps(batch)}\n")
        self.batches.append(batch)

    def missing(self, first, end, most):
        """Yield (first, end) of each batch of at most so many cases that is still to be run."""
        at = first
        for begin, stop in [*sorted((each["first"], each["end"]) for each in self.batches), (end, end)]:
            while at < min(begin, end):
                yield at, min(at + most, begin, end)
                at = min(at + most, begin, end)
            at = max(at, stop)

    def counts(self):
        """All counts together: `cases`, `requests`, `bytes`, `seconds` of the clock and of the `processor`."""
        return {name: sum(each[name] for each in self.batches) for name in _COUNTS}

    def faults(self):
        """An example of each way to fail, and in how many `cases` it was seen."""
        found, seen = {}, collections.Counter()
        for batch in self.batches:
            for signature, example in batch["faults"].items():
                found.setdefault(signature, example)
                seen[signature] += example["cases"]
        return {signature: {**example, "cases": seen[signature]} for signature, example in found.items()}


def _read(path):
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def version_of(folder):
    """The commit of a checkout, and a digest of what was changed since; `no-commit` where there is no git."""
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD").decode().strip()
        changed = _git(folder, "diff", "--binary", "HEAD")
        others = _git(folder, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    except (OSError, subprocess.CalledProcessError):
        return "no-commit"
    for name in filter(None, others):
        path = folder / name.decode()
        changed += name + (path.read_bytes() if path.is_file() else b"")
    return f"{commit}-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else commit


def _git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout  # noqa: S607 - as it is on the path
