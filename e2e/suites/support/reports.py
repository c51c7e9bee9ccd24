"""Reports: what a failing test shows, so that its cause can be found without the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from e2e.suites.support import installations
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

__all__ = ["explain", "missing"]

_CRDS = ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io")
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_KINDS = "trainjobs.trainer.kubeflow.org,jobsets.jobset.x-k8s.io,jobs.batch,pods,resourceclaims"
_LONGEST = 12_000
_LINES = 60


def missing(kubectl: Kubectl | None) -> str:
    """Return what a cluster lacks for the suites, "" when nothing is missing."""
    if kubectl is None:
        return "KUBECONFIG or kubectl (on PATH, or its path in MUSTER_E2E_KUBECTL) is missing"
    answer = kubectl.run("get", "--raw", "/readyz", timeout=20)
    if not answer.ok:
        return f"the cluster does not answer: {answer.err.strip()}"
    wanted = [("customresourcedefinitions", name) for name in _CRDS] + [(kind, "muster") for kind in _CONFIGURATIONS]
    absent = [f"{kind}/{name}" for kind, name in wanted if not kubectl.run("get", kind, name, timeout=20).ok]
    return f"the cluster has no {', '.join(absent)}" if absent else ""


def explain(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add sections to the report of a failed test: events, objects, Muster's log and audit records.

    What is short comes first, since whoever collects the output of CI may keep only its beginning.
    """
    for space in _spaces(getattr(item, "funcargs", {})):
        _add(report, f"events of {space.name}", partial(_events, space))
        _add(report, f"objects of {space.name}", partial(_objects, space))
        _add(report, "log of Muster", partial(_log, space))
        _add(report, f"audit records of {space.name}", partial(_audit, space))


def _spaces(arguments: Mapping[str, Any]) -> list[Space]:
    """Return the namespaces among a test's fixtures: given by themselves, or as `space` of something."""
    found = [getattr(value, "space", value) for value in arguments.values()]
    return list({each.name: each for each in found if isinstance(each, Space)}.values())


def _add(report: pytest.TestReport, title: str, tell: Callable[[], str]) -> None:
    try:
        text = tell()
    except Exception as error:  # noqa: BLE001  # the failed test must be told, whatever else fails
        text = f"could not be read: {error}"
    report.sections.append((title, text[:_LONGEST] + ("\n(cut)" if len(text) > _LONGEST else "")))


def _objects(space: Space) -> str:
    found = [_short(each) for each in space.all(_KINDS)]
    return yaml.safe_dump_all(found, sort_keys=False, width=160) if found else "none"


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only the API server reads; of pods, show where they stand."""
    metadata = {
        key: value for key, value in found["metadata"].items() if key not in ("managedFields", "resourceVersion")
    }
    if found["kind"] == "Pod":
        containers = [
            {key: each.get(key) for key in ("name", "image", "command", "args", "env") if each.get(key)}
            for each in found["spec"]["containers"]
        ]
        status = {key: value for key, value in found["status"].items() if key in ("phase", "reason", "conditions")}
        return {"kind": "Pod", "name": metadata["name"], "containers": containers, "status": status}
    return {"kind": found["kind"], "metadata": metadata, "status": found.get("status"), "spec": found.get("spec")}


def _events(space: Space) -> str:
    return "\n".join(_event_lines(space.events())) or "none"


def _event_lines(events: list[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        about = "{kind}/{name}".format(**event["involvedObject"])
        yield f"{event.get('type')} {event.get('reason')} {about}: {event.get('message')}"


def _log(space: Space) -> str:
    lines = installations.look(space.kubectl).log()
    chosen = [line for line in lines if space.name in line or '"level": "error"' in line or '"warning"' in line]
    return "\n".join((chosen or lines)[-_LINES:]) or "empty"


def _audit(space: Space) -> str:
    records = installations.look(space.kubectl).audit(space.name)
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in records[-_LINES:]) or "none"
