"""A Gateway in a cluster: its manifests, its command and the objects that it makes itself fit together."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

import pytest

from muster.certs import authorities
from muster.sessions.cli import pods
from muster.sessions.cli.main import parser
from muster.sessions.platforms import manifests
from tests.manifests import files, policies

FOLDER = files.FOLDER / "sessions"
DOCUMENTS = [
    document
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in files.documents(path)
]


def one(kind):
    (found,) = (each for each in DOCUMENTS if each["kind"] == kind)
    return found


POD = one("Deployment")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """What the command of the pod makes of its words, in a pod of this namespace."""
    (tmp_path / "token").write_text("a")
    (tmp_path / "ca.crt").write_bytes(authorities.bundle_pem(authorities.create(datetime.now(UTC))))
    (tmp_path / "namespace").write_text(one("Deployment")["metadata"]["namespace"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    args = parser().parse_args([*CONTAINER["args"], "--account", str(tmp_path)])
    return pods.chosen(args).settings


def test_its_words_are_taken_and_its_ports_and_folders_are_those_of_the_pod(settings):
    args = parser().parse_args(CONTAINER["args"])
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert (args.port, args.metrics) == (ports["gateway"], ports["metrics"])
    mounts = {each["mountPath"]: each for each in CONTAINER["volumeMounts"]}
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in POD["spec"]["volumes"][:1]}
    for path, volume in ((args.root, settings.volume), (args.base, settings.base_volume)):
        mount = mounts[str(path)]
        assert (claims[mount["name"]], mount["subPath"]) == (volume.claim, volume.path)
    assert mounts[str(args.base)]["readOnly"]
    assert str(args.tls) in mounts
    assert set(mounts) == {str(args.root), str(args.base), str(args.tls), "/tmp"}  # in the container


def test_probes_ask_where_it_answers_without_a_key():
    # The Gateway itself cannot be imported here.
    (opened,) = re.findall(
        r"_OPEN = frozenset\((.*)\)", (files.FOLDER.parent / "sessions/gateway/doors.py").read_text()
    )
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = CONTAINER[name]["httpGet"]
        assert f'"{asked["path"]}"' in opened
        assert (asked["port"], asked["scheme"]) == ("gateway", "HTTPS")


def test_the_engines_let_in_its_pods_and_it_reaches_the_engines(settings):
    (rule,) = manifests.policy(settings, "u")["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": settings.peers}
    assert settings.peers == one("Deployment")["metadata"]["namespace"]
    assert peer["podSelector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()
    own = one("NetworkPolicy")["spec"]
    (reached,) = (each for each in own["egress"] if "podSelector" in (each.get("to") or [{}])[0])
    (peer,) = reached["to"]
    assert [each["port"] for each in reached["ports"]] == [each["port"] for each in rule["ports"]]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": settings.namespace}
    job_set = manifests.job_set(settings, {"trainer": (), "sampler": ()})
    for replicated in job_set["spec"]["replicatedJobs"]:
        labels = replicated["template"]["spec"]["template"]["metadata"]["labels"]
        assert peer["podSelector"]["matchLabels"].items() <= labels.items()


def test_its_rights_are_for_its_own_objects_where_its_engines_are(settings):
    role, bound = one("Role"), one("RoleBinding")
    named = {name for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert named == {manifests.name_of(settings)}
    assert role["metadata"]["namespace"] == bound["metadata"]["namespace"] == settings.namespace
    (subject,) = bound["subjects"]
    assert (subject["name"], subject["namespace"]) == (POD["spec"]["serviceAccountName"], settings.peers)
    unnamed = {verb for rule in role["rules"] if "resourceNames" not in rule for verb in rule["verbs"]}
    assert unnamed == {"create", "get", "list", "watch"}
    (claims,) = (rule for rule in role["rules"] if "get" in rule["verbs"] and "resourceNames" not in rule)
    assert claims == {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]}
    secrets = {verb for rule in role["rules"] if rule["resources"] == ["secrets"] for verb in rule["verbs"]}
    assert secrets == {"create", "get"}


def test_its_policy_names_what_its_engines_have_and_binds_its_account(settings):
    policy, binding = one("ValidatingAdmissionPolicy"), one("ValidatingAdmissionPolicyBinding")
    assert policies.unnamed(policy, settings) == set()
    assert policies.unnamed(policy, dataclasses.replace(settings, image="another:1")) == {"another:1"}
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    bound = {each for rule in policy["spec"]["matchConstraints"]["resourceRules"] for each in rule["resources"]}
    written = {"create", "patch", "update"}
    assert bound == {each for rule in one("Role")["rules"] if written & {*rule["verbs"]} for each in rule["resources"]}


def test_its_own_objects_are_called_otherwise_than_those_of_its_engines(settings):
    shared = {"Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    own = {each["metadata"]["name"] for each in DOCUMENTS if each["kind"] not in shared}
    assert own == {settings.gateway}
    assert manifests.name_of(settings) not in own


def test_it_runs_without_any_right_of_the_node():
    assert POD["spec"]["securityContext"]["runAsNonRoot"]
    assert POD["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in CONTAINER["resources"]["limits"]
    assert one("ServiceAccount")["automountServiceAccountToken"] is False


def test_a_journal_in_a_file_has_one_gateway_at_a_time_which_has_time_to_remove_its_engines():
    spec = one("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    assert POD["spec"]["terminationGracePeriodSeconds"] >= 60
