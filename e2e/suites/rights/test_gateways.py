"""What a stolen token of a Gateway can make: the objects of its engines, and nothing that reaches further."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.sessions import kustomizations
from e2e.suites.support import devices, spaces, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl, Outcome
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until
from muster.sessions.platforms import manifests

pytestmark = pytest.mark.xdist_group("installation")

Document = dict[str, Any]
Change = Callable[[Document], Any]

MANIFESTS = REPOSITORY / "manifests" / "sessions"
FILES = ("serviceaccount.yaml", "rbac.yaml", "validatingadmissionpolicy.yaml")
ARGUMENTS = {"trainer": ("--role", "trainer"), "sampler": ("--role", "sampler")}
DENIED = "denied request"
EVERYWHERE = "secret-of-others"


@pytest.fixture(scope="module")
def home(kubectl: Kubectl) -> Iterator[Space]:
    """The namespace of a Gateway."""
    made = Space(spaces.named("gateway"), kubectl).make()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def engines(kubectl: Kubectl, home: Space) -> Iterator[Space]:
    """The namespace of its engines, with its account, its rights and the policy that is shipped with them."""
    made = Space(spaces.named("engines"), kubectl).make()
    shipped = [each for file in FILES for each in yaml.safe_load_all((MANIFESTS / file).read_text())]
    documents = kustomizations.bounded(
        kustomizations.moved(shipped, {"gateways": home.name, "muster-engines": made.name}), home.name, made.name
    )
    kubectl.apply(*documents).expect()
    settings = settings_of(home, made)
    try:
        wrong = job_set(settings, image="another:1")
        until("the policy to be in force", lambda: DENIED in sent(made, home, wrong, dry_run=True).err)
        yield made
    finally:
        for each in documents:
            if each["kind"].startswith("ValidatingAdmissionPolicy"):
                kubectl.delete(each["kind"].lower(), each["metadata"]["name"])
        made.remove()


@pytest.fixture
def settings(home: Space, engines: Space) -> manifests.Settings:
    """The settings of the Gateway, as its arguments in `manifests/sessions` are."""
    return settings_of(home, engines)


def settings_of(home: Space, engines: Space) -> manifests.Settings:
    """Return the settings of a Gateway with engines in a namespace."""
    return manifests.Settings(
        gateway="gateway",
        namespace=engines.name,
        peers=home.name,
        image="muster-engine:0.1.0",
        volume=manifests.Volume("muster-sessions", "state"),
        root=Path("/state"),
        base=Path("/base"),
        base_volume=manifests.Volume("muster-sessions", "models/muster/tiny"),
    )


def sent(
    engines: Space, home: Space, document: Document, *, dry_run: bool = False, options: tuple[str, ...] = ()
) -> Outcome:
    """Create an object with the token of the Gateway's account."""
    account = f"--as=system:serviceaccount:{home.name}:gateway"
    return engines.create(document, dry_run=dry_run, options=(account, *options))


def job_set(settings: manifests.Settings, **container: Any) -> Document:
    """Return the JobSet of a Gateway, whose trainer's container has other members."""
    made = copy.deepcopy(manifests.job_set(settings, ARGUMENTS))
    pod(made)["containers"][0] |= container
    return made


def pod(made: Document) -> Document:
    """Return the pod of the trainer of a JobSet."""
    found: Document = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return found


def container(made: Document) -> Document:
    """Return the container of the trainer of a JobSet."""
    found: Document = pod(made)["containers"][0]
    return found


def template(made: Document) -> Document:
    """Return the metadata of the trainer's pod."""
    found: Document = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]
    return found


def volume(**source: Any) -> Change:
    """Return what adds a volume."""
    return lambda made: pod(made)["volumes"].append({"name": "more", **source})


QUICK = (
    "the account of others",
    "a Secret of others",
    "a Secret in its environment",
    "the root of its node",
    "the journal of the Gateway",
    "privileged",
    "another image",
    "a Secret by annotation",
)
"""Those that `make test` tries."""
JOB_SETS: dict[str, Change] = {
    "the account of others": lambda made: pod(made).update(serviceAccountName="default"),
    "the account of others by its old name": lambda made: pod(made).update(serviceAccount="default"),
    "a token of the API server": lambda made: pod(made).update(automountServiceAccountToken=True),
    "a Secret of others": volume(secret={"secretName": EVERYWHERE}),
    "a Secret of others in the place of its own": lambda made: pod(made)["volumes"][1].update(
        secret={"secretName": EVERYWHERE}
    ),
    "a projected token": volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
    "a Secret in a projection": volume(projected={"sources": [{"secret": {"name": EVERYWHERE}}]}),
    "a ConfigMap": volume(configMap={"name": "kube-root-ca.crt"}),
    "the claim of others": volume(persistentVolumeClaim={"claimName": "data"}),
    "the claim of others under its own name": lambda made: pod(made)["volumes"][0].update(
        persistentVolumeClaim={"claimName": "data"}
    ),
    "a claim that is made for it": volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
    "a driver's volume": volume(csi={"driver": "secrets-store.csi.k8s.io"}),
    "the root of its node": volume(hostPath={"path": "/"}),
    "the root of its node as the folder of the agent": lambda made: pod(made)["volumes"].append(
        {"name": "lease", "hostPath": {"path": "/"}}
    ),
    "a Secret in its environment": lambda made: container(made)["env"].append(
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": EVERYWHERE, "key": "a"}}}
    ),
    "all of a Secret in its environment": lambda made: container(made).update(
        envFrom=[{"secretRef": {"name": EVERYWHERE}}]
    ),
    "a library before its own": lambda made: container(made)["env"].append({"name": "LD_PRELOAD", "value": "/tmp/a"}),
    "the journal of the Gateway": lambda made: container(made)["volumeMounts"].append(
        {"name": "root", "mountPath": "/state", "subPath": "state"}
    ),
    "its weights as its program": lambda made: container(made)["volumeMounts"].append(
        {"name": "root", "mountPath": "/usr/lib", "subPath": "state/weights"}
    ),
    "a folder that a variable names": lambda made: container(made)["volumeMounts"][0].update(subPathExpr="$(A)"),
    "privileged": lambda made: container(made)["securityContext"].update(privileged=True),
    "root": lambda made: pod(made)["securityContext"].update(runAsUser=0, runAsNonRoot=False),
    "root in its container": lambda made: container(made)["securityContext"].update(runAsUser=0, runAsNonRoot=False),
    "a capability": lambda made: container(made)["securityContext"].update(
        capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    ),
    "escalation": lambda made: container(made)["securityContext"].update(allowPrivilegeEscalation=True),
    "no seccomp": lambda made: pod(made)["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "a group of files": lambda made: pod(made)["securityContext"].update(supplementalGroups=[0]),
    "the processes of its node": lambda made: pod(made).update(hostPID=True),
    "the network of its node": lambda made: pod(made).update(hostNetwork=True),
    "the memory of its node": lambda made: pod(made).update(hostIPC=True),
    "a port of its node": lambda made: container(made)["ports"][0].update(hostPort=8090),
    "a node by name": lambda made: pod(made).update(nodeName="control-plane"),
    "a priority": lambda made: pod(made).update(priorityClassName="system-node-critical"),
    "a runtime class": lambda made: pod(made).update(runtimeClassName="untrusted"),
    "a Secret of a registry": lambda made: pod(made).update(imagePullSecrets=[{"name": EVERYWHERE}]),
    "another image": lambda made: container(made).update(image="docker.io/library/python:3"),
    "another program": lambda made: container(made).update(command=["sh", "-c", "id"]),
    "a program when it starts": lambda made: container(made).update(
        lifecycle={"postStart": {"exec": {"command": ["id"]}}}
    ),
    "a program as its probe": lambda made: container(made).update(readinessProbe={"exec": {"command": ["id"]}}),
    "a probe of another host": lambda made: container(made)["readinessProbe"]["httpGet"].update(host="10.0.0.1"),
    "a second container": lambda made: pod(made)["containers"].append({"name": "b", "image": "muster-engine:0.1.0"}),
    "a container before it": lambda made: pod(made).update(
        initContainers=[{"name": "b", "image": "muster-engine:0.1.0"}]
    ),
    "a claim on a device of others": lambda made: pod(made).update(
        resourceClaims=[{"name": "a", "resourceClaimName": "theirs"}]
    ),
    "the label of another Gateway": lambda made: template(made)["labels"].update({"muster.dev/gateway": "other"}),
    "no label that its NetworkPolicy selects": lambda made: template(made)["labels"].pop("muster.dev/gateway"),
    "a cloud's identity by label": lambda made: template(made)["labels"].update(
        {"azure.workload.identity/use": "true"}
    ),
    "a Secret by annotation": lambda made: template(made).update(
        annotations={"vault.hashicorp.com/agent-inject": "true"}
    ),
    "another name": lambda made: made["metadata"].update(name="mine"),
    "a name that is made": lambda made: made["metadata"].update(name=None, generateName="muster-gateway"),
    "more pods than two": lambda made: made["spec"]["replicatedJobs"][0].update(replicas=100),
    "a third engine": lambda made: made["spec"]["replicatedJobs"].append(
        {**copy.deepcopy(made["spec"]["replicatedJobs"][0]), "name": "third"}
    ),
    "claims on storage": lambda made: made["spec"].update(
        volumeClaimPolicies=[
            {"templates": [{"metadata": {"name": "more"}, "spec": {"resources": {"requests": {"storage": "1Ti"}}}}]}
        ]
    ),
    "pods of others by a selector": lambda made: made["spec"]["replicatedJobs"][0]["template"]["spec"].update(
        manualSelector=True, selector={"matchLabels": {"app": "theirs"}}
    ),
    "another controller of its Job": lambda made: made["spec"]["replicatedJobs"][0]["template"]["spec"].update(
        managedBy="example.com/mine"
    ),
    "another controller": lambda made: made["spec"].update(managedBy="kueue.x-k8s.io/multikueue"),
}


@pytest.mark.parametrize("change", thorough.but_named(*QUICK, of=JOB_SETS))
def test_the_token_of_a_gateway_makes_no_engine_with(
    home: Space, engines: Space, settings: manifests.Settings, change: Change
) -> None:
    made = job_set(settings)
    change(made)
    assert sent(engines, home, made, dry_run=True).refused_with(DENIED)


QUICK_OTHERS = ("a token of the account of others", "an account with a cloud's identity", "a network that is open")
OTHERS: dict[str, Document] = {
    "a token of the account of others": {
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"annotations": {"kubernetes.io/service-account.name": "default"}},
    },
    "a copy of a Secret of others": {
        "kind": "Secret",
        "metadata": {"annotations": {"replicator.v1.mittwald.de/replicate-from": "kube-system/ca"}},
    },
    "a Secret of another name": {"kind": "Secret", "metadata": {"name": "mine"}},
    "another Secret": {"kind": "Secret", "stringData": {"token": "a", ".dockerconfigjson": "{}"}},
    "an account with a cloud's identity": {
        "kind": "ServiceAccount",
        "metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"}},
    },
    "an account with a token": {"kind": "ServiceAccount", "automountServiceAccountToken": True},
    "an account with a Secret": {"kind": "ServiceAccount", "imagePullSecrets": [{"name": EVERYWHERE}]},
    "an account of another name": {"kind": "ServiceAccount", "metadata": {"name": "mine"}},
    "a network that is open": {"kind": "NetworkPolicy", "spec": {"podSelector": {}, "ingress": [{}]}},
    "engines that everybody reaches": {"kind": "NetworkPolicy", "spec": {"ingress": [{}]}},
    "engines that reach everybody": {"kind": "NetworkPolicy", "spec": {"egress": [{}]}},
    "a network of another name": {"kind": "NetworkPolicy", "metadata": {"name": "mine"}},
}


@pytest.mark.parametrize("change", thorough.but_named(*QUICK_OTHERS, of=OTHERS))
def test_the_token_of_a_gateway_does_not_make(
    home: Space, engines: Space, settings: manifests.Settings, change: Document
) -> None:
    own = {each["kind"]: each for each in beside(settings, "0000")}
    made = copy.deepcopy(own[change["kind"]])
    for key, value in change.items():
        made[key] = {**made[key], **value} if isinstance(value, dict) and key in {"metadata", "spec"} else value
    assert sent(engines, home, own[change["kind"]], dry_run=True).ok
    assert sent(engines, home, made, dry_run=True).refused_with(DENIED)


def beside(settings: manifests.Settings, uid: str) -> list[Document]:
    """Return what a Gateway makes beside its JobSet."""
    secret = manifests.secret(settings, uid, "secret")
    return [secret, manifests.service_account(settings, uid), manifests.policy(settings, uid)]


@pytest.fixture
def stored(home: Space, engines: Space, settings: manifests.Settings) -> Iterator[str]:
    """The JobSet of the Gateway, stored for the time of a test; its uid."""
    sent(engines, home, job_set(settings)).expect()
    yield str((engines.jobset("muster-gateway") or {})["metadata"]["uid"])
    for kind in ("jobset", "secret", "serviceaccount", "networkpolicy"):
        engines.delete(kind, "muster-gateway", wait=True).expect()


def test_the_objects_that_a_gateway_makes_are_taken_and_may_be_had_again(
    home: Space, engines: Space, settings: manifests.Settings, stored: str
) -> None:
    secret, *applied = beside(settings, stored)
    sent(engines, home, secret).expect()
    account = f"--as=system:serviceaccount:{home.name}:gateway"
    for _ in range(2):
        engines.apply(*applied, server_side=True, options=(account, "--force-conflicts")).expect()
    term = {"metadata": {"annotations": {manifests.TERM: "2"}}, "spec": {"suspend": False}}
    patched(engines, home, "merge", term).expect()
    until("the engines to run", lambda: len(engines.pods(manifests.selector(settings))) == 2)


def test_an_engine_is_not_changed_afterwards(home: Space, engines: Space, stored: str) -> None:
    assert stored
    path = "/spec/replicatedJobs/0/template/spec/template/metadata/annotations"
    operation = {"op": "add", "path": path, "value": {"vault.hashicorp.com/agent-inject": "true"}}
    assert patched(engines, home, "json", [operation]).refused_with(DENIED)


def patched(engines: Space, home: Space, form: str, body: Any) -> Outcome:
    """Patch the JobSet of the Gateway with the token of its account."""
    patch = ("patch", "jobset", "muster-gateway", "-n", engines.name, f"--type={form}", "-p", json.dumps(body))
    return engines.kubectl.run(*patch, f"--as=system:serviceaccount:{home.name}:gateway")


def test_a_gateway_asks_about_its_engines_under_another_name_by_dry_runs_alone(
    home: Space, engines: Space, settings: manifests.Settings
) -> None:
    asked = job_set(settings)
    asked["metadata"]["name"] = "probe-gateway"
    sent(engines, home, asked, dry_run=True).expect()
    assert sent(engines, home, asked).refused_with(DENIED)


@pytest.mark.parametrize(
    "changes",
    [
        {"lease": Path("/run/muster/devices/lease.sock"), "memory": "16Gi"},
        {"base_volume": None},
    ],
    ids=["with turns on a device", "with a model in the image"],
)
def test_engines_of_other_settings_are_taken(
    home: Space, engines: Space, settings: manifests.Settings, changes: dict[str, Any]
) -> None:
    sent(engines, home, job_set(dataclasses.replace(settings, **changes)), dry_run=True).expect()


ROLE = {"nodeLabels": {"pool": "rl"}, "tolerations": [{"key": "rl", "effect": "NoSchedule"}]}


def test_what_musters_admission_adds_to_engines_is_taken(
    installation: Installation, home: Space, engines: Space, settings: manifests.Settings
) -> None:
    engines.kubectl.apply(devices.device_class("e2e-gateway", "true")).expect()
    shared = {"deviceClass": "e2e-gateway", "sharing": "shared", "claims": 1, "maxSessions": 2, "memory": "1Gi"}
    roles = {"trainer": {**ROLE, "spread": "kubernetes.io/hostname"}, "sampler": ROLE}
    made = job_set(dataclasses.replace(settings, profile="e2e-gateway"))
    with installation.configure({"profiles": {"e2e-gateway": shared}, "roles": roles}):
        outcome = sent(engines, home, made, dry_run=True, options=("-o", "json"))
    engines.kubectl.delete("deviceclass", "e2e-gateway")
    added = set(pod(outcome.expect().json)) - set(pod(made))
    assert added == {"resourceClaims", "schedulingGates", "affinity", "tolerations", "topologySpreadConstraints"}


def test_what_others_make_in_the_namespace_is_not_bound(engines: Space) -> None:
    engines.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": EVERYWHERE}, "stringData": {"a": "b"}}
    ).expect()
