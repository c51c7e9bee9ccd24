"""kubectl, as people use it: the suites see the answers, warnings and errors that a user sees.

Nothing here raises because the cluster refused something; half of the tests are about refusals. Reading (`get`, `all`,
`raw`) does raise when kubectl fails for another reason than a missing object, so that a broken cluster is never
mistaken for an empty one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.suites.support import readings

__all__ = ["Kubectl", "KubectlError", "Outcome", "found"]

Document = Mapping[str, Any]


class KubectlError(AssertionError):
    """kubectl failed where it should not have; the message holds the command and all that it printed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run of kubectl.

    Attributes:
        command: the command line, without the configuration.
        code: exit code.
        out, err: what it printed.
    """

    command: str
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.code == 0

    @property
    def warnings(self) -> list[str]:
        """The warnings that kubectl showed, without the word itself."""
        return [line.removeprefix("Warning: ") for line in self.err.splitlines() if line.startswith("Warning: ")]

    @property
    def json(self) -> Any:
        """The output of a `-o json` run, decoded."""
        return json.loads(self.out)

    def refused_with(self, *texts: str) -> bool:
        """Whether kubectl failed and its errors hold each of these texts."""
        return not self.ok and all(text in self.err for text in texts)

    def expect(self) -> Outcome:
        """Return itself.

        Raises:
            KubectlError: the run failed.
        """
        if self.ok:
            return self
        raise KubectlError(str(self))

    def __str__(self) -> str:
        return f"$ kubectl {self.command}\n(exit code {self.code})\n{self.out}{self.err}"


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A kubectl and the cluster it talks to.

    Args:
        kubeconfig: path of the configuration.
        binary: path of kubectl.
    """

    kubeconfig: str
    binary: str = "kubectl"
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *args: str, stdin: str | None = None, timeout: float = 60) -> Outcome:
        """Run kubectl; never raises on a non-zero exit, nor when it takes longer than `timeout` seconds (code 124)."""
        command = [self.binary, "--kubeconfig", self.kubeconfig, *args]
        shown = " ".join(args)
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                env={**os.environ, **self.environment},
            )
        except subprocess.TimeoutExpired:
            return Outcome(shown, 124, "", f"kubectl did not end within {timeout:g} s\n")
        return Outcome(shown, done.returncode, done.stdout, done.stderr)

    def apply(
        self,
        *documents: Document,
        server_side: bool = False,
        manager: str | None = None,
        namespace: str | None = None,
        dry_run: bool = False,
        options: tuple[str, ...] = (),
    ) -> Outcome:
        """`kubectl apply`: by default client-side, as people type it.

        Args:
            documents: applied in one run.
            server_side: `--server-side`.
            manager: `--field-manager`.
            namespace: the namespace of documents that do not name one.
            dry_run: `--dry-run=server`.
            options: further ones, `("-o", "json")` for example.
        """
        args = ["apply", *_common(namespace, dry_run=dry_run)]
        args += ["--server-side"] * server_side
        args += ["--field-manager", manager] if manager else []
        return self.run(*args, *options, "-f", "-", stdin=stream(documents))

    def create(
        self, *documents: Document, namespace: str | None = None, dry_run: bool = False, options: tuple[str, ...] = ()
    ) -> Outcome:
        """`kubectl create`, which a `generateName` needs; arguments as of `apply`."""
        args = ["create", *_common(namespace, dry_run=dry_run), *options]
        return self.run(*args, "-f", "-", stdin=stream(documents))

    def replace(self, *documents: Document, namespace: str | None = None) -> Outcome:
        """`kubectl replace`: a plain update of the whole object."""
        return self.run("replace", *_common(namespace), "-f", "-", stdin=stream(documents))

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Return one object, None when there is none.

        Raises:
            KubectlError: kubectl failed for another reason.
        """
        reader = self._reader(kind)
        if reader is not None:
            try:
                return reader.get(kind, name, namespace)
            except readings.ReadError as error:
                raise KubectlError(str(error)) from error
        outcome = self.run("get", kind, name, *_common(namespace), "--ignore-not-found", "-o", "json").expect()
        found: dict[str, Any] | None = outcome.json if outcome.out.strip() else None
        return found

    def all(self, kind: str, namespace: str | None = None, selector: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a kind (several with commas) in a namespace, None being the cluster's own.

        Raises:
            KubectlError: kubectl failed.
        """
        reader = self._reader(kind)
        if reader is not None:
            try:
                return [each for one in kind.split(",") for each in reader.all(one, namespace, selector)]
            except readings.ReadError as error:
                raise KubectlError(str(error)) from error
        chosen = ["-l", selector] if selector else []
        listed = self.run("get", kind, *_common(namespace), *chosen, "-o", "json").expect().json
        items: list[dict[str, Any]] = listed["items"]
        return items

    def told(self, kind: str, namespace: str, document: Document) -> str:
        """Return the API server's error and warnings for a creation in a dry run, "" when there are none.

        kubectl is not started for it, because callers that wait ask often.

        Raises:
            KubectlError: no answer.
        """
        reader = self._reader(kind)
        assert reader is not None, f"{kind}: the API path of this kind is not known"
        try:
            return reader.told(kind, namespace, document)
        except readings.ReadError as error:
            raise KubectlError(str(error)) from error

    def _reader(self, kinds: str) -> readings.Reader | None:
        return readings.reader((self.binary, "--kubeconfig", self.kubeconfig), self.environment, kinds)

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str | None,
        body: Any,
        type: str = "merge",  # noqa: A002  # kubectl's own word
        subresource: str | None = None,
    ) -> Outcome:
        """`kubectl patch`; `body` is an object, or for type `json` a list of operations."""
        further = ["--subresource", subresource] if subresource else []
        return self.run("patch", kind, name, *_common(namespace), f"--type={type}", *further, "-p", json.dumps(body))

    def delete(
        self, kind: str, name: str, namespace: str | None = None, *, wait: bool = False, grace: int | None = None
    ) -> Outcome:
        """`kubectl delete`, by default without waiting; a missing object is fine; `grace=0` also forces."""
        args = ["delete", kind, name, *_common(namespace), "--ignore-not-found", f"--wait={str(wait).lower()}"]
        args += [] if grace is None else [f"--grace-period={grace}"]
        args += ["--force"] * (grace == 0)
        return self.run(*args)

    def raw(self, path: str) -> Any:
        """GET a path of the API server; JSON is decoded, other text is returned as it is.

        Raises:
            KubectlError: the answer is not a success.
        """
        out = self.run("get", "--raw", path).expect().out
        try:
            return json.loads(out)
        except ValueError:
            return out


def found() -> Kubectl | None:
    """Return the kubectl and cluster that the environment names, None when something is missing."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    binary = os.environ.get("MUSTER_E2E_KUBECTL") or shutil.which("kubectl")
    if not kubeconfig or not binary:
        return None
    state = os.environ.get("MUSTER_E2E_STATE")
    # kubectl's cache about a cluster that `e2e.cluster` made is deleted with the cluster.
    return Kubectl(kubeconfig, binary, {"KUBECACHEDIR": str(Path(state, "kubectl-cache"))} if state else {})


def stream(documents: tuple[Document, ...]) -> str:
    """Return documents as kubectl reads them from standard input."""
    return "\n".join(json.dumps(document) for document in documents)


def _common(namespace: str | None, *, dry_run: bool = False) -> list[str]:
    return (["-n", namespace] if namespace else []) + ["--dry-run=server"] * dry_run
