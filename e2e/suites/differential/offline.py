"""The offline side: the `muster` command on files, with what the cluster holds as files.

The command's own entry point is called in this process: starting Python a hundred times would take longer than all that
is compared. That it is the same in a process of its own is tested with the command line.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.webhook.cli import main

__all__ = ["Offline"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offline:
    """`muster`, reading documents from a folder.

    Args:
        folder: a folder for the files.
        namespace: the namespace of jobs that do not name one.
        known: what the cluster holds: runtimes, namespaces, TrainJobs and frozen runtimes.
    """

    folder: Path
    namespace: str
    known: Sequence[Document]

    def render(self, job: Document) -> dict[str, Any]:
        """Return the job as it would be stored."""
        (rendered,) = self._json("render", job)
        return dict(rendered)

    def patch(self, job: Document) -> list[dict[str, Any]]:
        """Return the operations of `muster render -o patch`."""
        line = json.loads(self._run("render", "-o", "patch", job=job))
        return list(line["patch"])

    def explain(self, job: Document) -> list[dict[str, Any]]:
        """Return the explanations: of the job, and of a TrainJob also that of the JobSet that would follow."""
        return list(self._json("explain", job))

    def check(self, job: Document) -> list[dict[str, Any]]:
        """Return the findings, each an object with severity, place, field, value, message and rule."""
        (checked,) = self._json("check", job)
        assert not checked.get("failure"), checked
        return list(checked["findings"])

    def review(self, job: Document, *, uid: str = "u") -> list[dict[str, Any]]:
        """Return the operations with which the webhook would answer the creation of the job."""
        group, _, version = str(job["apiVersion"]).partition("/")
        request = {
            "uid": uid,
            "operation": "CREATE",
            "kind": {"group": group, "version": version, "kind": job["kind"]},
            "resource": {"group": group, "version": version, "resource": f"{job['kind'].lower()}s"},
            "namespace": self.namespace,
            "name": job["metadata"].get("name", ""),
            "userInfo": {"username": "e2e"},
            "object": job,
            "dryRun": True,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = json.loads(self._muster(["review", *self._cluster()], json.dumps(review)))["response"]
        assert answer["allowed"], answer
        return _decoded(answer.get("patch"))

    def _json(self, command: str, job: Document) -> list[Any]:
        return list(json.loads(self._run(command, "-o", "json", job=job)))

    def _run(self, *arguments: str, job: Document) -> str:
        return self._muster([*arguments, "-f", "-", *self._cluster()], json.dumps(job))

    def _cluster(self) -> list[str]:
        file = self.folder / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(self.known)}))
        return ["-n", self.namespace, "--runtimes", str(file)]

    def _muster(self, arguments: Sequence[str], stdin: str) -> str:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _stdin(stdin):
            code = main.main(list(arguments))
        texts = [_written(each) for each in (out, err)]
        # 1 says that errors were found, which is an answer too; 2 that something could not be read.
        assert code in (0, 1), f"muster {' '.join(arguments)}: {code}\n{''.join(texts)}"
        return texts[0]


@contextlib.contextmanager
def _stdin(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _decoded(patch: str | None) -> list[dict[str, Any]]:
    return json.loads(base64.b64decode(patch)) if patch else []
