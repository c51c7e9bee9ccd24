"""Kubernetes' own policies in CEL, Mutating- and ValidatingAdmissionPolicy, which the API server runs itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bench.peers import changes
from bench.peers.labs import Lab
from bench.peers.shapes import Peer

__all__ = ["LARGEST", "NATIVE", "NATIVE_BOTH", "Native", "expression"]

_GROUP = "admissionregistration.k8s.io/v1"
_NAME = "peer"
_CONTAINER = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0"
_JOB = "object.spec.replicatedJobs[0]"
_GPUS = f"{_JOB}.template.spec.template.spec.containers[0].resources.limits['nvidia.com/gpu']"
_NODES = f"{_JOB}.template.spec.completions"
_ADDRESS = f"object.metadata.name + '-' + {_JOB}.name + '-0-0.' + object.metadata.name"

LARGEST = (
    "object.spec.replicatedJobs.all(each, !has(each.template.spec.completions) || "
    f"each.template.spec.completions <= {changes.MOST})"
)
"""CEL: no replicated job has more than 64 pods."""


def expression() -> str:
    """Return the change as a CEL list of JSONPatch operations; like most such policies it takes the first container."""
    computed = {
        "PET_NNODES": f"string({_NODES})",
        "PET_NPROC_PER_NODE": f"string({_GPUS})",
        "PET_MASTER_ADDR": _ADDRESS,
        "MASTER_ADDR": _ADDRESS,
        "MUSTER_EXPECTED_WORLD_SIZE": f"string({_NODES} * int({_GPUS}))",
    }
    operations = [f"JSONPatch{{op: 'replace', path: '{_CONTAINER}/command', value: {json.dumps(changes.COMMAND)}}}"]
    for each in changes.variables():
        name = each["name"]
        if "valueFrom" in each:
            value = f"{{'name': dyn('{name}'), 'valueFrom': dyn({json.dumps(each['valueFrom'])})}}"
        else:
            value = f"{{'name': '{name}', 'value': {computed.get(name, json.dumps(each['value']))}}}"
        operations.append(f"JSONPatch{{op: 'add', path: '{_CONTAINER}/env/-', value: {value}}}")
    return f"[{', '.join(operations)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Native(Peer):
    """The mutating policy, and with `validates` the validating one."""

    validates: bool = False

    def register(self, lab: Lab) -> None:
        """Create the policies and their bindings."""
        lab.apply(*self._documents())

    def unregister(self, lab: Lab) -> None:
        """Delete them."""
        lab.delete(*self._documents())

    def _documents(self) -> list[dict[str, Any]]:
        rule = {
            "operations": ["CREATE"],
            "apiGroups": ["jobset.x-k8s.io"],
            "apiVersions": ["v1alpha2"],
            "resources": ["jobsets"],
        }
        matched = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}}
        mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression()}}
        documents = [
            _document("MutatingAdmissionPolicy", {**matched, "reinvocationPolicy": "Never", "mutations": [mutation]}),
            _document("MutatingAdmissionPolicyBinding", {"policyName": _NAME}),
        ]
        if self.validates:
            checks = [{"expression": LARGEST, "message": "a replicated job has more than 64 pods"}]
            binding = {"policyName": _NAME, "validationActions": ["Deny"]}
            documents += [
                _document("ValidatingAdmissionPolicy", {**matched, "validations": checks}),
                _document("ValidatingAdmissionPolicyBinding", binding),
            ]
        return documents


def _document(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": _NAME}, "spec": spec}


_FIRST = "It looks at the first container of the first replicated job only."

NATIVE = Native(name="native", title="MutatingAdmissionPolicy", note=_FIRST)
NATIVE_BOTH = Native(
    name="native-both",
    title="MutatingAdmissionPolicy and ValidatingAdmissionPolicy",
    note=_FIRST,
    validates=True,
    judges=True,
)
