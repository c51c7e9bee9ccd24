"""Gatekeeper, the webhook of Open Policy Agent: mutations without a language, and constraints in Rego.

Its audit, its status controllers and the rotation of its certificates are left out, and so is its Deployment: the
process runs beside the API server, as all peers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.peers import changes, servers
from bench.peers.labs import PINS, Lab
from bench.peers.shapes import Served
from e2e.cluster import builds, processes, upstream

__all__ = ["ASSIGN", "ASSIGN_CONSTRAINT", "MODULE", "PATH", "Gatekeeper", "constraint", "mutators", "template"]

MODULE = builds.Module("gatekeeper", root=PINS)

PATH = "github.com/open-policy-agent/gatekeeper/v3"
"""Of its Go module."""

_NAMESPACE, _POD = "gatekeeper-system", "peer"
_KIND = "PeerMostPods"
_CONTAINER = "spec.replicatedJobs[name:node].template.spec.template.spec.containers[name:node]"
_UNKNOWN = "unknown"

_PROGRAM = """\
package peer

violation[{"msg": msg}] {
  pods := input.review.object.spec.%(field)s
  pods > %(most)d
  msg := sprintf("%%v pods are more than %(most)d", [pods])
}
"""

_MATCHED = {"kinds": [{"apiGroups": ["jobset.x-k8s.io"], "kinds": ["JobSet"]}]}


def mutators() -> list[dict[str, Any]]:
    """Return one Assign for the command and one for each variable.

    An Assign writes constants. It cannot compute what depends on the job, so the numbers are those of the one job that
    is measured, and the names of its first pod are wrong.
    """
    return [
        _assign("command", "command", changes.COMMAND),
        *(_assign(each["name"], f"env[name:{each['name']}].{field}", value) for each, field, value in _values()),
    ]


def _values() -> list[tuple[dict[str, Any], str, Any]]:
    found = []
    for each in changes.variables():
        field = "valueFrom" if "valueFrom" in each else "value"
        named = isinstance(each[field], str) and each[field].endswith(f".{changes.NAME}")
        found.append((each, field, _UNKNOWN if named else each[field]))
    return found


def _assign(name: str, place: str, value: object) -> dict[str, Any]:
    return {
        "apiVersion": "mutations.gatekeeper.sh/v1",
        "kind": "Assign",
        "metadata": {"name": re.sub(r"[^a-z0-9]+", "-", f"peer-{name}".lower())},
        "spec": {
            "applyTo": [{"groups": ["jobset.x-k8s.io"], "versions": ["v1alpha2"], "kinds": ["JobSet"]}],
            "match": {"scope": "Namespaced", **_MATCHED},
            "location": f"{_CONTAINER}.{place}",
            "parameters": {"assign": {"value": value}},
        },
    }


def template(field: str = "replicatedJobs[_].template.spec.completions") -> dict[str, Any]:
    """Return the rule in Rego that a field of the specification is not more than `changes.MOST`."""
    program = {"target": "admission.k8s.gatekeeper.sh", "rego": _PROGRAM % {"field": field, "most": changes.MOST}}
    return {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {"name": _KIND.lower()},
        "spec": {"crd": {"spec": {"names": {"kind": _KIND}}}, "targets": [program]},
    }


def constraint(matched: Mapping[str, Any] = _MATCHED) -> dict[str, Any]:
    """Return the use of that rule for some kinds."""
    return {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": _KIND,
        "metadata": {"name": "peer"},
        "spec": {"match": dict(matched)},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatekeeper(Served):
    """Its manager as a webhook alone, with our mutators and our constraint in the cluster from its first start on."""

    def modules(self) -> tuple[builds.Module, ...]:
        """Return the module of its manager."""
        return (MODULE,)

    def versions(self) -> dict[str, str]:
        """Return its version."""
        return {"Gatekeeper": builds.version(MODULE, PATH)}

    def prepare(self, lab: Lab) -> None:
        """Give the cluster its definitions, its mutators and its constraint, whose kind its manager makes."""
        text = (builds.module_folder(MODULE, PATH) / "deploy" / "gatekeeper.yaml").read_text(encoding="utf-8")
        shipped = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
        kinds = ("Namespace", "CustomResourceDefinition", "ServiceAccount")
        lab.apply(*(each for kind in kinds for each in shipped if each["kind"] == kind))
        upstream.established(lab.kubectl, lab.where.kubeconfig)
        lab.apply(_pod(), *mutators(), template())
        # The kind is made by whoever generates; in its own installation that is the process of its audit.
        processes.start(lab.where, self.name, (*self.command(lab), "--operation=generate"), self.environment(lab))
        try:
            servers.until("Gatekeeper makes no kind of the constraint", lambda: _served(lab))
            lab.apply(constraint())
        finally:
            self.stop(lab)

    def command(self, lab: Lab) -> Sequence[str | Path]:
        """Return its command line; both phases run in one process, as in its own Deployment."""
        return (
            lab.binaries / self.program,
            f"--kubeconfig={lab.where.kubeconfig}",
            "--disable-cert-rotation",
            f"--cert-dir={lab.certificates()}",
            "--host=127.0.0.1",
            f"--port={lab.port(self.program)}",
            f"--health-addr=127.0.0.1:{lab.port('gatekeeper health')}",
            f"--prometheus-port={lab.port('gatekeeper metrics')}",
            "--logtostderr",
            f"--exempt-namespace={_NAMESPACE}",
            "--operation=webhook",
            "--operation=mutation-webhook",
            "--disable-opa-builtin={http.send}",
            "--shutdown-delay=0",
        )

    def environment(self, lab: Lab) -> Mapping[str, str]:
        """Return the pod that it takes itself for: it must exist, or what it writes about itself is collected."""
        return {"KUBECONFIG": str(lab.where.kubeconfig), "POD_NAMESPACE": _NAMESPACE, "POD_NAME": _POD}


def _pod() -> dict[str, Any]:
    """Return a pod that is never scheduled, and that its namespace's standard lets in."""
    quiet = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    container = {
        "name": "manager",
        "image": "none",
        "securityContext": {**quiet, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _POD, "namespace": _NAMESPACE},
        "spec": {
            "serviceAccountName": "gatekeeper-admin",
            "schedulingGates": [{"name": "muster.dev/never"}],
            "containers": [container],
        },
    }


def _served(lab: Lab) -> bool:
    named = f"{_KIND.lower()}.constraints.gatekeeper.sh"
    query = "jsonpath={.status.conditions[?(@.type=='Established')].status}"
    return lab.run(("get", "crd", named, "--ignore-not-found", "-o", query)) == "True"


_LACKS = ("names of the first pod", "claim")
_CONSTANTS = "An Assign writes constants, so the numbers are those of this one job. Its audit does not run."

ASSIGN = Gatekeeper(
    name="gatekeeper",
    title="Gatekeeper, Assign",
    program="gatekeeper",
    mutates="/v1/mutate",
    note=_CONSTANTS,
    lacks=_LACKS,
)
ASSIGN_CONSTRAINT = Gatekeeper(
    name="gatekeeper-both",
    title="Gatekeeper, Assign and a constraint",
    program="gatekeeper",
    mutates="/v1/mutate",
    validates="/v1/admit",
    note="As the one before, with one rule in Rego as its validation.",
    lacks=_LACKS,
    judges=True,
)
