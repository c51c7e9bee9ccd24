"""Kyverno's admission controller, with its policies in CEL and with those in its own language.

It makes its certificates and registers its webhooks itself, as it does on every cluster: for this, it is told the
address at which it is reached. Its background, reports and cleanup controllers are left out, and it writes no reports
of dry runs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.peers import changes, policies, servers
from bench.peers.labs import PINS, Lab
from bench.peers.shapes import Peer
from e2e.cluster import builds, processes, upstream

__all__ = [
    "BOTH",
    "CLUSTER",
    "CLUSTER_POLICY",
    "MODULE",
    "MUTATING",
    "MUTATING_POLICY",
    "PATH",
    "VALIDATING_POLICY",
    "Kyverno",
]

MODULE = builds.Module("kyverno", root=PINS)

PATH = "github.com/kyverno/kyverno"
"""Of its Go module."""

_PROGRAM = "kyverno"
_NAMESPACE, _NAME = "kyverno", "peer"
_AUTHORITY, _PAIR = "kyverno-svc.kyverno.svc.kyverno-tls-ca", "kyverno-svc.kyverno.svc.kyverno-tls-pair"
_CONFIGS = ("kyverno", "kyverno-metrics")
_DEFINITIONS = ("kyverno", "policies.kyverno.io", "policyreport", "reports")
_OWN = "webhook.kyverno.io/managed-by"
_RULE = {
    "operations": ["CREATE"],
    "apiGroups": ["jobset.x-k8s.io"],
    "apiVersions": ["v1alpha2"],
    "resources": ["jobsets"],
}

MUTATING_POLICY: dict[str, Any] = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "MutatingPolicy",
    "metadata": {"name": _NAME},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_RULE]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": policies.expression()}}],
    },
}
"""The change in CEL, by the expression of the native policy."""

VALIDATING_POLICY: dict[str, Any] = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "ValidatingPolicy",
    "metadata": {"name": _NAME},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_RULE]},
        "validationActions": ["Deny"],
        "validations": [{"expression": policies.LARGEST, "message": "a replicated job has more than 64 pods"}],
    },
}
"""The one rule in CEL, by the expression of the native policy."""

_JOB = "request.object.spec.replicatedJobs[0]"
_CONTAINER = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0"
_ADDRESS = f"{{{{request.object.metadata.name}}}}-{{{{{_JOB}.name}}}}-0-0.{{{{request.object.metadata.name}}}}"
_COMPUTED = {
    "PET_NNODES": "{{nodes}}",
    "PET_NPROC_PER_NODE": "{{gpus}}",
    "PET_MASTER_ADDR": _ADDRESS,
    "MASTER_ADDR": _ADDRESS,
    "MUSTER_EXPECTED_WORLD_SIZE": "{{multiply(nodes, to_number(gpus))}}",
}


def _patches() -> str:
    lines = [f"- {{op: replace, path: {_CONTAINER}/command, value: {json.dumps(changes.COMMAND)}}}"]
    for each in changes.variables():
        value = each if "valueFrom" in each else {**each, "value": _COMPUTED.get(each["name"], each["value"])}
        lines.append(f"- {{op: add, path: {_CONTAINER}/env/-, value: {json.dumps(value)}}}")
    return "\n".join(lines)


CLUSTER_POLICY: dict[str, Any] = {
    "apiVersion": "kyverno.io/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": _NAME},
    "spec": {
        "background": False,
        "failurePolicy": "Fail",
        "rules": [
            {
                "name": _NAME,
                "match": {
                    "any": [{"resources": {"kinds": ["jobset.x-k8s.io/v1alpha2/JobSet"], "operations": ["CREATE"]}}]
                },
                "context": [
                    {"name": "nodes", "variable": {"jmesPath": f"{_JOB}.template.spec.completions"}},
                    {
                        "name": "gpus",
                        "variable": {
                            "jmesPath": f"{_JOB}.template.spec.template.spec.containers[0]"
                            '.resources.limits."nvidia.com/gpu"'
                        },
                    },
                ],
                "mutate": {"patchesJson6902": _patches()},
            }
        ],
    },
}
"""The change in Kyverno's own language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kyverno(Peer):
    """Its admission controller with its policies, which are created after its start.

    Attributes:
        policies: what it is to do.
    """

    policies: tuple[Mapping[str, Any], ...] = field(repr=False)

    def modules(self) -> tuple[builds.Module, ...]:
        """Return its module."""
        return (MODULE,)

    def versions(self) -> dict[str, str]:
        """Return its version."""
        return {"Kyverno": builds.version(MODULE, PATH)}

    def prepare(self, lab: Lab) -> None:
        """Give the cluster its definitions and configuration, and have it make its certificates once."""
        folder = builds.module_folder(MODULE, PATH) / "config"
        files = [file for group in _DEFINITIONS for file in sorted((folder / "crds" / group).glob("*.yaml"))]
        lab.apply(*(yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader) for file in files))
        upstream.established(lab.kubectl, lab.where.kubeconfig)
        text = (folder / "install-latest-testing.yaml").read_text(encoding="utf-8")
        shipped = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        configs = [each for each in shipped if each["kind"] == "ConfigMap" and each["metadata"]["name"] in _CONFIGS]
        lab.apply(namespace, *configs)
        self.start(lab)
        try:
            servers.until("Kyverno makes no certificate", lambda: _is_trusted(lab))
            servers.until("Kyverno does not become ready", lambda: self.ready(lab))
        finally:
            self.stop(lab)

    def start(self, lab: Lab) -> None:
        """Start its process."""
        processes.start(lab.where, self.name, self._command(lab), self._environment())

    def ready(self, lab: Lab) -> bool:
        """Whether its readiness probe would let traffic in; that its webhooks are there is seen by dry runs."""
        return servers.Server(f"https://{_address(lab)}", _trust(lab)).ready("/health/readiness")

    def register(self, lab: Lab) -> None:
        """Create the policies, for which Kyverno registers webhooks."""
        lab.apply(*self.policies)

    def unregister(self, lab: Lab) -> None:
        """Delete the policies."""
        lab.delete(*self.policies)

    def stop(self, lab: Lab) -> None:
        """End its process, and remove what it leaves: its webhooks, and the lease by which it knows that it is well."""
        processes.end(lab.where, self.name)
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            lab.run(("delete", kind, "-l", _OWN))
        lab.run(("delete", "lease", "kyverno-health", "-n", _NAMESPACE, "--ignore-not-found"))

    def component(self) -> str:
        """Return its own name."""
        return self.name

    def size(self, lab: Lab) -> int:
        """Return the bytes of its binary."""
        return (lab.binaries / _PROGRAM).resolve().stat().st_size

    def _command(self, lab: Lab) -> Sequence[str | Path]:
        host, _, port = _address(lab).partition(":")
        account = f"system:serviceaccount:{_NAMESPACE}:kyverno"
        return (
            lab.binaries / _PROGRAM,
            f"--kubeconfig={lab.where.kubeconfig}",
            f"--serverIP={_address(lab)}",
            f"--webhookServerHost={host}",
            f"--webhookServerPort={port}",
            f"--caSecretName={_AUTHORITY}",
            f"--tlsSecretName={_PAIR}",
            f"--backgroundServiceAccountName={account}-background-controller",
            f"--reportsServiceAccountName={account}-reports-controller",
            f"--metricsHost={host}",
            f"--metricsPort={lab.port('kyverno metrics')}",
            "--controllerRuntimeMetricsAddress=0",
            "--omitEvents=PolicyApplied,PolicySkipped",
            "--loggingFormat=text",
            "--v=2",
        )

    def _environment(self) -> dict[str, str]:
        return {
            "KYVERNO_NAMESPACE": _NAMESPACE,
            "KYVERNO_SERVICEACCOUNT_NAME": "kyverno-admission-controller",
            "KYVERNO_ROLE_NAME": "kyverno:admission-controller",
            "KYVERNO_DEPLOYMENT": "kyverno-admission-controller",
            "KYVERNO_POD_NAME": _NAME,
            "KYVERNO_SVC": "kyverno-svc",
            "INIT_CONFIG": _CONFIGS[0],
            "METRICS_CONFIG": _CONFIGS[1],
        }


def _address(lab: Lab) -> str:
    return f"127.0.0.1:{lab.port(_PROGRAM)}"


def _trust(lab: Lab) -> Path:
    return lab.where.credentials / "kyverno.crt"


def _is_trusted(lab: Lab) -> bool:
    """Whether it has made its authority, which is then written where `_trust` says."""
    words = ("get", "secret", _AUTHORITY, "-n", _NAMESPACE, "--ignore-not-found", "-o", "jsonpath={.data.tls\\.crt}")
    if found := lab.run(words):
        _trust(lab).write_bytes(base64.b64decode(found))
    return bool(found)


_FIRST = "It looks at the first container of the first replicated job only."
_WITHOUT = "Without its background, reports and cleanup controllers; no report is written of a dry run."

MUTATING = Kyverno(
    name="kyverno",
    title="Kyverno, MutatingPolicy",
    policies=(MUTATING_POLICY,),
    note=f"{_FIRST} {_WITHOUT}",
)
BOTH = Kyverno(
    name="kyverno-both",
    title="Kyverno, MutatingPolicy and ValidatingPolicy",
    policies=(MUTATING_POLICY, VALIDATING_POLICY),
    note="As the one before, with one rule as its validation.",
    judges=True,
)
CLUSTER = Kyverno(
    name="kyverno-cluster",
    title="Kyverno, ClusterPolicy",
    policies=(CLUSTER_POLICY,),
    note=f"{_FIRST} {_WITHOUT}",
)
