"""An installation without a cluster: a kubectl that keeps objects, and certificates of any age."""

from __future__ import annotations

import base64
import datetime
import json

import yaml

from muster.certs import (
    authorities,
    expiries,
    leaves,
    materials,
    pems,
    subject_names,
)
from muster.webhook import installer
from muster.webhook.installer import installed_objects
from tests.manifests import bases

__all__ = ["DAY", "FakeKubectl", "foreign", "install", "secret_of", "trusted"]

DAY = datetime.timedelta(days=1)


class FakeKubectl(installer.Kubectl):
    """Keeps objects as an API server would, the order of all that was done, and by which field managers."""

    def __init__(self, *, fails=""):
        super().__init__()
        self.fails = fails
        self.done = []
        self.managers = set()
        crds = ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io")
        self.objects = {("customresourcedefinition", name): {} for name in crds}

    def run(self, *arguments, given="", **_limits):
        if self.fails and self.fails in arguments:
            raise installer.InstallError(f"kubectl {arguments[0]}: no")
        return getattr(self, f"_{arguments[0]}")(arguments, given)

    def _kustomize(self, _arguments, _given):
        return yaml.safe_dump_all(bases.documents())

    def _apply(self, arguments, given):
        self.managers |= {each.partition("=")[2] for each in arguments if each.startswith("--field-manager=")}
        for item in json.loads(given)["items"]:
            self.done.append(item["kind"])
            self.objects[item["kind"].lower(), item["metadata"]["name"]] = item
        return ""

    def _get(self, arguments, _given):
        found = self.objects.get((arguments[1], arguments[2]))
        return "" if found is None else json.dumps(found)

    def _delete(self, arguments, _given):
        self.done.append(arguments[1].partition(".")[0])
        return "deleted" if self.objects.pop((arguments[1].partition(".")[0], arguments[2]), None) else ""

    def _rollout(self, _arguments, _given):
        self.done.append("rollout")
        return ""

    def _logs(self, _arguments, _given):
        return "its last words"


def install(kubectl, **wanted):
    """Install, and return what was said."""
    said = []
    installer.install(kubectl, installer.Installation(**wanted), said.append)
    return said


def secret_of(age, *, sans=None):
    """A Secret whose certificates were made `age` ago, for a year."""
    made = expiries.utc_now() - age
    authority = authorities.create(made, validity=365 * DAY)
    leaf = leaves.issue(
        authority, sans or subject_names.service_names("muster", "muster-system"), made, validity=365 * DAY
    )
    return installed_objects.secret(materials.from_authority(authority, leaf))


def trusted(kubectl, kind="mutatingwebhookconfiguration"):
    """The CAs in the first entry of the webhook configuration."""
    entry = kubectl.objects[kind, "muster"]["webhooks"][0]
    return pems.certificates(base64.b64decode(entry["clientConfig"]["caBundle"]), "caBundle")


def foreign(secret):
    """The same Secret, made by somebody else."""
    return {**secret, "metadata": {"name": "muster-tls"}}
