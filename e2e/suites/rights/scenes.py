"""One object of each kind that the webhook keeps in memory, and the jobs for whose admission it is looked up."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.suites.support import devices, documents
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["ROLES", "Scene", "made"]

ROLES = "e2e.muster.dev/rights"
"""Label of the node; its value is the namespace."""
_PROFILE = "muster.dev/profile"
_TAINT = {"key": ROLES, "effect": "NoSchedule"}
_CLAIMED = {
    "resourceclaimtemplates.resource.k8s.io": "resourceClaimTemplateName",
    "resourceclaims.resource.k8s.io": "resourceClaimName",
    "deviceclasses.resource.k8s.io": "resourceClaimTemplateName",
}
_OWNED = ("trainjobs.trainer.kubeflow.org", "configmaps")

Asked = tuple[Mapping[str, Any], str]
"""A job, and the namespace in which somebody would create it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The objects, in one namespace.

    Attributes:
        space: the namespace, whose name is also that of the node and of the device class.
        owner: uid of TrainJob `job`, which Trainer has frozen a runtime for.
    """

    space: Space
    owner: str

    def asks_for(self, resource: str) -> Asked:
        """Return a job whose admission needs the object of this resource that there is, and no other that is not."""
        if resource in _OWNED:
            return self._owned("job", self.owner), self.space.name
        if resource in _CLAIMED:
            return _claiming(_CLAIMED[resource], "there"), self.space.name
        kind = "ClusterTrainingRuntime" if resource.startswith("cluster") else "TrainingRuntime"
        name = "torch-distributed" if resource.startswith("cluster") else "there"
        return documents.trainjob("asks", name, kind=kind), self.space.name

    def asks_for_none(self, resource: str) -> Asked:
        """Return a job whose admission needs an object of this resource that there is not."""
        absent = f"none-{secrets.token_hex(4)}"  # for a second Muster remembers what there is not
        if resource in _OWNED:
            return self._owned(absent, absent), self.space.name
        if resource.startswith("deviceclasses"):
            return _claiming(_CLAIMED[resource], "odd"), self.space.name
        if resource in _CLAIMED:
            return _claiming(_CLAIMED[resource], absent), self.space.name
        if resource == "namespaces":
            return documents.trainjob("asks", "torch-distributed", kind="ClusterTrainingRuntime"), absent
        kind = "ClusterTrainingRuntime" if resource.startswith("cluster") else "TrainingRuntime"
        return documents.trainjob("asks", absent, kind=kind), self.space.name

    def asks_for_a_node(self) -> Asked:
        """Return a JobSet of a role whose only node has a taint that its pods do not tolerate."""
        job = documents.jobset("asks", fake=False)
        _template(job)["metadata"] = {"labels": {"muster.dev/role": "sampler"}}
        return job, self.space.name

    def config(self) -> dict[str, Any]:
        """Return what Muster's configuration has to say of that role."""
        return {"roles": {"sampler": {"nodeLabels": {ROLES: self.space.name}}}}

    def remove(self) -> None:
        """Delete what is outside the namespace."""
        self.space.kubectl.delete("node", self.space.name)
        self.space.kubectl.delete("deviceclass", self.space.name)

    def _owned(self, name: str, uid: str) -> dict[str, Any]:
        job = documents.jobset("asks", None)
        owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": name, "uid": uid}
        return {**job, "metadata": {**job["metadata"], "ownerReferences": [{**owner, "controller": True}]}}


def made(space: Space) -> Scene:
    """Make the objects, and wait until Trainer has frozen the runtime of the TrainJob."""
    name = space.name
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ROLES: name}},
        "spec": {"taints": [_TAINT]},
    }
    space.kubectl.apply(node, devices.device_class(name, "true")).expect()
    odd = devices.template("odd", devices.request(f"{name}-none"))
    claim = devices.claim("there", devices.request(name))
    claim["metadata"]["labels"] = {_PROFILE: "none"}  # the label by which claims are listed
    space.apply(documents.training_runtime("there"), odd, claim).expect()
    space.apply(devices.template("there", devices.request(name))).expect()
    until("Trainer to know the runtime", lambda: space.apply(documents.trainjob("job", "there", suspend=True)).ok)
    until("Trainer to freeze the runtime", lambda: space.get("configmaps", "job-runtime-snapshot"))
    found = space.trainjob("job")
    assert found is not None, "there is no TrainJob"
    return Scene(space, found["metadata"]["uid"])


def _claiming(member: str, name: str) -> dict[str, Any]:
    job = documents.jobset("asks")
    _template(job)["spec"]["resourceClaims"] = [{"name": "devices", member: name}]
    return job


def _template(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a JobSet's one job."""
    template: dict[str, Any] = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template
