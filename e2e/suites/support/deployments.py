"""Muster as Deployment `muster-system/muster`, in any cluster: all that is done to it is done by kubectl."""

from __future__ import annotations

import copy
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.support import documents, followers, musters, waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["Deployed"]

_NAMESPACE, _NAME, _KEY = "muster-system", "muster", "muster.yaml"
_ROLLOUT = 180

PodSpec = dict[str, Any]


class Deployed:
    """An `Installation` that is a Deployment.

    What a pod logged is lost with the pod, so its log is followed while one is taken away.

    Args:
        kubectl: kubectl for the cluster.
    """

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._replicas = max(int(self._deployment()["spec"].get("replicas", 1)), 1)
        self._past: list[str] = []

    def stop(self) -> None:
        """See `Installation`."""
        with self._kept():
            self._scale(0)
            waits.until("Muster's pods to be gone", lambda: not self._pods(), 60)

    def kill(self, *, for_good: bool = False) -> None:
        """See `Installation`."""
        with self._kept() as killed:
            if for_good:
                self._scale(0)
            for name in killed:
                # A second, not none: a pod that is deleted without grace is gone from the API server at once, and the
                # kubelet, which knows nothing of that, gives its process all the time that its specification allows.
                self._kubectl.delete("pod", name, _NAMESPACE, grace=1).expect()
            waits.until(f"{', '.join(killed)} to be gone", lambda: not set(self._names()) & set(killed), 60)
        if for_good:
            waits.until("Muster to be dead", lambda: musters.is_unreachable(self._kubectl), 60)
            self.stop()

    def start(self) -> None:
        """See `Installation`."""
        self._scale(self._replicas)
        self._rolled_out()
        self.wait_ready()

    def restart(self) -> None:
        """See `Installation`."""
        self.stop()
        self.start()

    def wait_ready(self, seconds: float = 60) -> None:
        """See `Installation`."""
        musters.wait_ready(self._kubectl, seconds)

    @contextmanager
    def configure(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """See `Installation`."""
        before = self._config()
        self._configured(musters.changed(before, changes))
        try:
            self.restart()
            yield
        finally:
            self._configured(before)
            self.restart()

    @contextmanager
    def reloaded(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """See `Installation`."""
        before = self._config()
        self._configured(musters.changed(before, changes))
        self._brought()
        try:
            yield
        finally:
            self._configured(before)
            self._brought()

    @contextmanager
    def impostor(self, script: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        """See `Installation`."""
        known = {**musters.environment(self._config()), **(environment or {})}
        files = {script.name: script}

        def edit(pod: PodSpec) -> None:
            container = pod["containers"][0]
            container["command"], container["args"] = ["python3", f"/e2e/{script.name}"], []
            for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                container.pop(probe, None)
            container["env"] = [*(container.get("env") or []), *_env(known)]
            pod["terminationGracePeriodSeconds"] = 1  # as the first process of its pod, it does not hear SIGTERM

        with self._edited(edit, files):
            waits.until(f"{script.name} to listen", lambda: not musters.is_refused(self._kubectl), 30)
            yield

    @contextmanager
    def plugin(self, folder: Path) -> Iterator[None]:
        """See `Installation`."""
        files = {
            str(file.relative_to(folder)): file
            for file in sorted(folder.rglob("*"))
            if file.is_file() and "__pycache__" not in file.parts
        }

        def edit(pod: PodSpec) -> None:
            container = pod["containers"][0]
            container["env"] = [*(container.get("env") or []), *_env({"PYTHONPATH": "/e2e"})]

        with self._edited(edit, files):
            self.wait_ready()
            yield

    def log(self, since: datetime.datetime | None = None) -> list[str]:
        """See `Installation`."""
        return musters.since((line for line in self._lines() if not musters.is_record(line)), since)

    def audit(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """See `Installation`."""
        found = {(record["uid"], record["phase"]): record for record in musters.records(self._lines(), namespace)}
        return sorted(found.values(), key=lambda record: str(record["time"]))

    def memory(self) -> int:
        """See `Installation`."""
        found = []
        for pod in self._pods():
            script = "print(open('/proc/1/status').read())"
            outcome = self._kubectl.run(
                "exec", "-n", _NAMESPACE, pod["metadata"]["name"], "--", "python3", "-c", script
            )
            if not outcome.ok:
                pytest.skip(f"the memory of Muster's pod cannot be read in this cluster: {outcome.err.strip()}")
            line = next(line for line in outcome.out.splitlines() if line.startswith("VmRSS:"))
            found.append(int(line.split()[1]) * 1024)
        return max(found)

    def restart_api_server(self) -> None:
        """See `Installation`."""
        musters.restart_api_server(self._kubectl)

    @contextmanager
    def _edited(self, edit: Callable[[PodSpec], None], files: Mapping[str, Path]) -> Iterator[None]:
        """Run other pods, with `files` under /e2e; afterwards the former ones."""
        before = self._deployment()["spec"]["template"]
        after = copy.deepcopy(before)
        keys = {f"file-{number}": name for number, name in enumerate(sorted(files))}
        content = {key: files[name].read_text() for key, name in keys.items()}
        self._kubectl.delete("configmap", "muster-e2e", _NAMESPACE, wait=True)
        self._kubectl.create(documents.config_map("muster-e2e", content), namespace=_NAMESPACE).expect()
        items = [{"key": key, "path": name} for key, name in keys.items()]
        pod = after["spec"]
        pod["volumes"] = [
            *(pod.get("volumes") or []),
            {"name": "e2e", "configMap": {"name": "muster-e2e", "items": items}},
        ]
        mounts = pod["containers"][0].get("volumeMounts") or []
        pod["containers"][0]["volumeMounts"] = [*mounts, {"name": "e2e", "mountPath": "/e2e"}]
        edit(pod)
        try:
            self._swapped(after)
            yield
        finally:
            self._swapped(before)
            self.wait_ready()
            self._kubectl.delete("configmap", "muster-e2e", _NAMESPACE)

    def _swapped(self, template: dict[str, Any]) -> None:
        """Exchange the pod template; no pod of the old one is left when this returns."""
        self.stop()
        operation = {"op": "replace", "path": "/spec/template", "value": template}
        self._kubectl.patch("deployment", _NAME, _NAMESPACE, [operation], type="json").expect()
        self._scale(self._replicas)
        self._rolled_out()

    def _rolled_out(self) -> None:
        limit = f"--timeout={_ROLLOUT}s"
        self._kubectl.run(
            "rollout", "status", f"deployment/{_NAME}", "-n", _NAMESPACE, limit, timeout=_ROLLOUT + 10
        ).expect()

    def _scale(self, replicas: int) -> None:
        self._kubectl.patch("deployment", _NAME, _NAMESPACE, {"spec": {"replicas": replicas}}).expect()

    def _deployment(self) -> dict[str, Any]:
        found = self._kubectl.get("deployment", _NAME, _NAMESPACE)
        assert found is not None, f"there is no Deployment {_NAMESPACE}/{_NAME}"
        return found

    def _selector(self) -> str:
        labels = self._deployment()["spec"]["selector"]["matchLabels"]
        return ",".join(f"{key}={value}" for key, value in labels.items())

    def _pods(self) -> list[dict[str, Any]]:
        return self._kubectl.all("pods", _NAMESPACE, self._selector())

    def _config(self) -> str:
        found = self._kubectl.get("configmap", _NAME, _NAMESPACE)
        assert found is not None, f"there is no ConfigMap {_NAMESPACE}/{_NAME}"
        return str(found["data"][_KEY])

    def _configured(self, text: str) -> None:
        self._kubectl.patch("configmap", _NAME, _NAMESPACE, {"data": {_KEY: text}}).expect()

    def _brought(self) -> None:
        """Have the kubelet look at the pods, which is when it brings them changed files; else that takes a minute."""
        patch = {"metadata": {"annotations": {"e2e.muster.dev/looked-at": str(time.time())}}}
        for name in self._names():
            self._kubectl.patch("pod", name, _NAMESPACE, patch).expect()

    def _lines(self) -> list[str]:
        outcome = self._kubectl.run("logs", "-n", _NAMESPACE, "-l", self._selector(), "--tail=-1")
        present = outcome.out.splitlines()
        known = set(self._past)
        return self._past + [line for line in present if line not in known]

    @contextmanager
    def _kept(self) -> Iterator[list[str]]:
        """Keep all that the pods log, whose names are given, while the body ends them."""
        names = self._names()
        with followers.followed(self._kubectl, _NAMESPACE, names) as lines:
            yield names
        known = set(self._past)
        self._past += [line for line in lines if line not in known]

    def _names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._pods()]


def _env(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
