"""What a process in an engine's pod can reach, by the objects that a Gateway makes for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from muster.sessions.platforms import manifests

ROOT, BASE = Path("/state"), Path("/base")
SETTINGS = manifests.Settings(
    gateway="gateway",
    namespace="team-a",
    peers="gateways",
    image="engine:1",
    volume=manifests.Volume("store", "state"),
    root=ROOT,
    base=BASE,
    base_volume=manifests.Volume("store", "models"),
    profile="seat",
)
JOB_SET = manifests.job_set(SETTINGS, {"trainer": (), "sampler": ()})
PODS = {each["name"]: each["template"]["spec"]["template"]["spec"] for each in JOB_SET["spec"]["replicatedJobs"]}
SECRETS = ("journal.sqlite", "signing.key")  # in the root of a Gateway

each_pod = pytest.mark.parametrize("role", manifests.ROLES)


def mounts(role):
    (container,) = PODS[role]["containers"]
    return container["volumeMounts"]


def test_it_reaches_nobody_by_the_network_and_only_its_gateway_reaches_it():
    spec = manifests.policy(SETTINGS, "u")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    (rule,) = spec["ingress"]
    assert len(rule["from"]) == 1
    assert [each["port"] for each in rule["ports"]] == [manifests.PORT]
    for role in manifests.ROLES:
        (labels,) = (
            each["template"]["spec"]["template"]["metadata"]["labels"]
            for each in JOB_SET["spec"]["replicatedJobs"]
            if each["name"] == role
        )
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()


@each_pod
def test_it_has_no_token_of_the_api_server_and_its_account_no_rights(role):
    assert PODS[role]["automountServiceAccountToken"] is False
    account = manifests.service_account(SETTINGS, "u")
    assert PODS[role]["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False
    assert not any("projected" in each for each in PODS[role]["volumes"])


@each_pod
def test_it_has_no_right_of_its_node_and_cannot_change_its_own_program(role):
    (container,) = PODS[role]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert PODS[role]["securityContext"]["runAsNonRoot"]
    assert PODS[role]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & PODS[role].keys()
    assert not any("hostPath" in each for each in PODS[role]["volumes"])


@each_pod
def test_it_sees_the_folders_of_weights_and_neither_journal_nor_signing_key(role):
    seen = {each["mountPath"]: each for each in mounts(role) if each["name"] == "root"}
    assert set(seen) <= {str(ROOT / each) for each in manifests.FOLDERS}
    for each in seen.values():
        assert each["subPath"].startswith("state/")
        assert not set(each["subPath"].split("/")) & {"", ".", ".."}
    for secret in SECRETS:
        assert not any(str(ROOT / secret).startswith(path) for path in seen)


def test_the_sampler_writes_no_weights_and_neither_writes_the_base_model():
    assert all(each["readOnly"] for each in mounts("sampler") if each["name"] in {"root", "base", "token"})
    assert all(each["readOnly"] for each in mounts("trainer") if each["name"] in {"base", "token"})
    (writable,) = {each["name"] for each in mounts("sampler") if not each.get("readOnly")}
    assert writable == "tmp"


@each_pod
def test_where_it_takes_turns_it_sees_the_folder_of_the_nodes_agent_and_cannot_write_there(role):
    leased = dataclasses.replace(SETTINGS, lease=Path("/run/muster/devices/lease.sock"))
    jobs = manifests.job_set(leased, {"trainer": (), "sampler": ()})["spec"]["replicatedJobs"]
    (spec,) = (each["template"]["spec"]["template"]["spec"] for each in jobs if each["name"] == role)
    more = [each for each in spec["volumes"] if each not in PODS[role]["volumes"]]
    assert more == [{"name": "lease", "hostPath": {"path": "/run/muster/devices", "type": "Directory"}}]
    (container,) = spec["containers"]
    mounted = [each for each in container["volumeMounts"] if each not in mounts(role)]
    assert mounted == [{"name": "lease", "mountPath": "/run/muster/devices", "readOnly": True}]
