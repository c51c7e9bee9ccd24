"""Whatever values are allowed, what is rendered is accepted by Kubernetes and by Muster, and its parts fit together."""

from __future__ import annotations

import copy
import json
import math
import re
import tomllib
from datetime import UTC, datetime

import pytest
import yaml

from muster.certs import authorities
from muster.sessions.cli import main as sessions
from muster.sessions.cli import pods
from muster.sessions.platforms import manifests
from muster.strategies.documents import names
from muster.webhook.admission.policies import Mode
from muster.webhook.cli import commandline
from muster.webhook.cli.commands import audit_serve
from muster.webhook.pages import gates
from muster.webhook.pages.page_server import HEALTH
from tests.manifests import files, policies, rules
from tests.packaging import others, renders
from tests.packaging.choices import CHOICES, GATEWAY, ISSUER, ON, PAGE

POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "ClusterTrainingRuntime", *POLICIES, *renders.WEBHOOKS)
DIGEST = f"sha256:{'b' * 64}"
TORCH = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
TLS_FILES = ("tls.crt", "tls.key", "ca.crt")

each_choice = pytest.mark.parametrize("values", list(CHOICES.values()), ids=list(CHOICES))


def pod(documents):
    return renders.one(documents, "Deployment", "muster")["spec"]["template"]


def webhook(documents):
    """The documents without those of the audit page and of a Gateway, which have accounts of their own."""
    return [each for each in beside(documents) if not each["metadata"]["name"].startswith("muster-audit")]


def beside(documents):
    """The documents without those of a Gateway, which may be in other namespaces."""
    return [each for each in documents if each not in [*gateway(documents), *agents(documents)]]


def gateway(documents):
    """The documents of a Gateway."""
    return [each for each in documents if each["metadata"]["labels"]["app.kubernetes.io/name"] == "muster-gateway"]


def agents(documents):
    """The documents of the agents of its devices."""
    return [each for each in documents if each["metadata"]["labels"]["app.kubernetes.io/name"] == "muster-devices"]


def kinds(documents):
    return {each["kind"] for each in documents}


@each_choice
def test_every_document_has_known_fields_only(helm, kubernetes, values):
    for document in helm.template(values):
        if document["kind"] == "ClusterTrainingRuntime":
            found = rules.check(document, {})
        elif kubernetes.knows(document):
            found = kubernetes.problems(document)
        else:
            found = others.problems(document)
        assert found == []


@each_choice
def test_the_configuration_is_one_that_muster_takes_and_its_names_are_those_of_the_rights(helm, values):
    documents = helm.template(values, namespace="elsewhere")
    config = renders.config(documents)
    secret, leases = config.tls.secret, []
    if secret:
        leases.append(("muster-certificates", secret.lease))
        assert secret.namespace == "elsewhere"
        assert secret.webhooks == "muster"
    if config.controllers.enabled:
        leases.append(("muster-controllers", config.controllers.lease))
    if config.trainings.enabled:
        leases.append(("muster-trainings", config.trainings.lease))
    roles = [each for each in webhook(documents) if each["kind"] == "Role"]
    own = [each for each in roles if each["metadata"]["namespace"] == "elsewhere"]
    assert {name for name, _ in leases} == {each["metadata"]["name"] for each in own}
    for name, lease in leases:
        role = renders.one(own, "Role", name)
        named = {(kind, each) for rule in role["rules"] for kind in rule["resources"] for each in rule.get(NAMES, ())}
        expected = {("leases", lease.name)} | ({("secrets", secret.name)} if name.endswith("certificates") else set())
        assert named == expected
        assert role["metadata"]["namespace"] == lease.namespace == "elsewhere"


NAMES = "resourceNames"


@each_choice
def test_everything_is_in_the_namespace_of_the_release_and_there_is_one_of_each(helm, values):
    documents = helm.template(values, namespace="elsewhere")
    account = pod(documents)["spec"]["serviceAccountName"]
    for document in beside(documents):
        watched = values.get("config", {}).get("cluster", {}).get("namespaces", ())
        spaces = {None} if document["kind"] in CLUSTER_WIDE else {"elsewhere"}
        spaces |= {*watched} if document["kind"] in {"Role", "RoleBinding"} else set()
        assert document["metadata"].get("namespace") in spaces
        for subject in document.get("subjects", ()) if document in webhook(documents) else ():
            assert (subject["name"], subject["namespace"]) == (account, "elsewhere")
        for entry in document.get("webhooks", ()):
            assert entry["clientConfig"]["service"]["namespace"] == "elsewhere"
            left_out = entry["namespaceSelector"]["matchExpressions"][0]["values"]
            assert left_out[:2] == ["kube-system", "elsewhere"]
            assert len(set(left_out)) == len(left_out)
    named = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in documents}
    assert len(named) == len(documents)


@each_choice
def test_selectors_select_the_pods_whatever_labels_people_add(helm, values):
    documents = webhook(helm.template(values))
    labels = pod(documents)["metadata"]["labels"]
    selectors = [renders.one(documents, "Service")["spec"]["selector"]]
    selectors += [
        each["spec"]["selector"]["matchLabels"]
        for each in documents
        if each["kind"] in {"Deployment", "PodDisruptionBudget"}
    ]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in documents if each["kind"] == "NetworkPolicy"]
    assert all(selector.items() <= labels.items() for selector in selectors)


@each_choice
def test_the_pod_has_the_certificate_that_it_is_told_to_serve_and_time_to_end(helm, values):
    documents = helm.template(values)
    config, spec = renders.config(documents), pod(documents)["spec"]
    (container,) = spec["containers"]
    mounted = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "tls"]
    read = [config.tls.cert_file, config.tls.key_file, config.tls.ca_file]
    if config.tls.secret:
        assert (mounted, read) == ([], [None] * 3)
    else:
        assert [str(each) for each in read] == [f"{mounted[0]}/{name}" for name in TLS_FILES]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in spec["volumes"]}
    assert container["ports"][0]["containerPort"] == config.server.port
    ends = math.ceil(config.server.readiness_delay) + math.ceil(config.server.shutdown_grace)
    assert spec["terminationGracePeriodSeconds"] >= ends + 10


@each_choice
def test_the_webhooks_call_the_port_of_the_service(helm, values):
    documents = helm.template(values)
    (port,) = renders.one(documents, "Service", "muster")["spec"]["ports"]
    entries = [entry for each in documents if each["kind"] in renders.WEBHOOKS for entry in each["webhooks"]]
    assert {entry["clientConfig"]["service"]["port"] for entry in entries} <= {port["port"]}


# What single values do


def test_common_labels_are_on_everything_and_select_nothing(helm):
    documents = helm.template(CHOICES["labels everywhere"])
    for document in documents:
        labels = document["metadata"]["labels"]
        assert (labels["example.com/cost-center"], labels["app.kubernetes.io/name"]) == ("42", "muster")
    template = pod(documents)["metadata"]["labels"]
    assert (template["example.com/cost-center"], template["app.kubernetes.io/name"]) == ("43", "muster")


def test_with_the_nodes_network_names_of_the_cluster_resolve_and_one_replica_is_always_there(helm):
    documents = helm.template(CHOICES["the network of the node"])
    spec = pod(documents)["spec"]
    (container,) = spec["containers"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert container["ports"] == [{"name": "webhook", "containerPort": 10250, "hostPort": 10250, "protocol": "TCP"}]
    assert container["args"] == ["serve", "--config", "/etc/muster/muster.yaml", "--help"]
    assert [each["name"] for each in container["env"]] == ["HTTPS_PROXY", "NODE"]

    def rolling(**values):
        values = {"hostNetwork": True, **values}
        return renders.one(helm.template(values), "Deployment")["spec"]["strategy"]["rollingUpdate"]

    assert rolling(replicas=2) == {"maxUnavailable": 1, "maxSurge": 1}
    assert rolling(replicas=1) == rolling(hostNetwork=False) == {"maxUnavailable": 0, "maxSurge": 1}


def test_an_account_that_exists_is_used_and_not_made(helm):
    documents = helm.template(CHOICES["an account of yours"])
    assert "ServiceAccount" not in kinds(documents)
    assert pod(documents)["spec"]["serviceAccountName"] == "trusted"
    named = helm.template({"serviceAccount": {"name": "mine"}})
    assert renders.one(named, "ServiceAccount")["metadata"]["name"] == "mine"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"maxUnavailable": "40%"}, {"maxUnavailable": "40%"}),
        ({"minAvailable": 1}, {"minAvailable": 1}),
        ({"minAvailable": "50%"}, {"minAvailable": "50%"}),
    ],
)
def test_a_budget_says_one_of_two(helm, given, expected):
    spec = renders.one(helm.template({"podDisruptionBudget": given}), "PodDisruptionBudget")["spec"]
    assert {key: each for key, each in spec.items() if key.endswith("vailable")} == expected


def test_runtimes_of_your_own_have_the_framework_by_which_their_strategy_is_found(helm):
    runtime = renders.one(helm.template(CHOICES["runtimes of your own"]), "ClusterTrainingRuntime", "ours")
    assert runtime["spec"] == CHOICES["runtimes of your own"]["runtimes"]["custom"]["ours"]["spec"]
    labels = runtime["metadata"]["labels"]
    assert (labels["trainer.kubeflow.org/framework"], labels["team"]) == ("torch", "ml")
    assert runtime["metadata"]["annotations"] == {"example.com/owner": "ml"}


def test_a_log_in_a_volume_below_another_one_that_is_only_read_is_fine(helm):
    mounts = [
        {"name": "etc", "mountPath": "/var/log", "readOnly": True},
        {"name": "logs", "mountPath": "/var/log/muster/"},
    ]
    volumes = [{"name": "etc", "configMap": {"name": "a"}}, {"name": "logs", "emptyDir": {}}]
    log = {"audit": {"file": {"path": "/var/log/muster/audit.log"}}}
    documents = helm.template({"config": log, "extraVolumes": volumes, "extraVolumeMounts": mounts})
    assert str(renders.config(documents).audit.file.path) == "/var/log/muster/audit.log"


def test_without_webhooks_everything_else_is_as_with_them(helm):
    without = helm.template(CHOICES["nothing calls it"])
    assert kinds(helm.template()) - kinds(without) == set(renders.WEBHOOKS)


def test_the_word_off_survives_yaml(helm):
    assert renders.config(helm.template(CHOICES["a configuration with everything"])).mode is Mode.OFF


def test_whole_numbers_of_the_configuration_stay_whole(helm):
    config = renders.config(helm.template(CHOICES["a configuration with everything"]))
    assert (config.audit.file.max_bytes, config.server.body_limit) == (67108864, 7340032)


def test_no_right_is_given_that_the_choice_does_not_need(helm):
    roles = {each["metadata"]["name"] for each in helm.template(CHOICES["certificates in files"]) if "rules" in each}
    assert roles == {"muster"}
    with_writers = helm.template(CHOICES["controllers"])
    assert {each["metadata"]["name"] for each in with_writers if "rules" in each} == {
        "muster",
        "muster-controllers",
        "muster-certificates",
    }


SOME = CHOICES["some namespaces alone"]


def test_where_namespaces_are_named_its_rights_are_roles_there_and_of_the_cluster_it_reads_what_has_no_namespace(helm):
    spaces = SOME["config"]["cluster"]["namespaces"]
    everywhere = {**SOME, "config": {**SOME["config"], "cluster": {"namespaces": []}}}
    documents, wide = helm.template(SOME), helm.template(everywhere)
    kept = {"nodes", "namespaces", "clustertrainingruntimes", "deviceclasses", *CONFIGURATIONS}
    for rule in (rule for each in documents if each["kind"] == "ClusterRole" for rule in each["rules"]):
        assert set(rule["resources"]) <= kept
        assert rule.get(NAMES) or {*rule["verbs"]} <= {"get", "list", "watch"}
    for space in spaces:
        there = [each for each in documents if each["kind"] == "Role" and each["metadata"]["namespace"] == space]
        assert held(there) | held(documents, "ClusterRole") == held(wide, "ClusterRole")
        bound = {each["roleRef"]["name"]: each["roleRef"]["kind"] for each in documents if each["kind"] == "RoleBinding"
                 and each["metadata"]["namespace"] == space}  # fmt: skip
        assert bound == {each["metadata"]["name"]: "Role" for each in there}
    assert renders.config(documents).cluster.namespaces == tuple(spaces)


CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def held(documents, kind="Role"):
    """The rights in all roles of a kind, without those to one object."""
    return {
        (group, resource, verb)
        for each in documents
        if each["kind"] == kind
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_where_namespaces_are_named_their_jobs_alone_are_sent_to_muster(helm):
    entries = [entry for each in helm.template(SOME) if each["kind"] in renders.WEBHOOKS for entry in each["webhooks"]]
    assert len(entries) == 8
    for entry in entries:
        out, named = entry["namespaceSelector"]["matchExpressions"]
        assert (out["operator"], named["operator"], named["values"]) == ("NotIn", "In", ["team-a", "team-b"])


def test_where_namespaces_are_named_the_anchors_can_be_read_all_the_same(helm):
    anchors = {"audit": {"anchors": "configmap"}}
    role = renders.one(
        helm.template({"config": {**anchors, "cluster": {"namespaces": ["team-a"]}}}), "Role", "muster-anchors"
    )
    assert ("", "configmaps", "get") in held([role])


def test_pods_start_anew_for_what_is_read_at_the_start_and_for_nothing_else(helm):
    def digest(**config):
        return pod(helm.template({"config": config}))["metadata"]["annotations"]["muster.dev/config-digest"]

    assert digest() == digest(mode="warn", onFailure="allow", pluginBudget=2, frameworks={"trl": {"mode": "off"}})
    assert digest() == digest(profiles={"a": {"deviceClass": "b"}}, roles={"trainer": {"nodeLabels": {"a": "b"}}})
    assert len({digest(), digest(server={"port": 9443}), digest(audit={"stdout": False})}) == 3


def test_an_image_is_named_by_all_its_parts(helm):
    (container,) = pod(helm.template(CHOICES["another image"]))["spec"]["containers"]
    assert container["image"] == f"registry.example:5000/a/b:1@sha256:{'a' * 64}"
    (container,) = pod(helm.template())["spec"]["containers"]
    assert container["image"] == "ghcr.io/muster-dev/webhook:0.1.0"


def test_every_runtime_can_be_switched_on_and_is_as_in_its_file(helm):
    rendered = {
        each["metadata"]["name"]: each
        for each in helm.template(CHOICES["all runtimes"])
        if each["kind"] == "ClusterTrainingRuntime"
    }
    assert {name: each["spec"] for name, each in rendered.items()} == {
        name: each["spec"] for name, each in files.runtimes().items()
    }
    for name, each in files.runtimes().items():
        assert each["metadata"]["labels"].items() <= rendered[name]["metadata"]["labels"].items()


def test_by_itself_it_brings_the_one_runtime_that_nobody_else_has(helm):
    rendered = [each["metadata"]["name"] for each in helm.template() if each["kind"] == "ClusterTrainingRuntime"]
    assert rendered == ["trl-distributed"]


def test_another_image_is_for_the_training_container_alone(helm):
    for document in helm.template(CHOICES["runtimes of another registry"]):
        if document["kind"] != "ClusterTrainingRuntime":
            continue
        original = files.runtimes()[document["metadata"]["name"]]
        for before, after in zip(containers(original), containers(document), strict=True):
            if before["name"] == "node":
                expected = f"registry.example/{'mine/trl:0.1.0' if 'trl' in before['image'] else 'torch:2'}"
                assert after == {**before, "image": expected}
            else:
                assert after == before


@pytest.mark.parametrize(
    ("part", "images"),
    [
        ({"registry": "r.example:5000"}, ("r.example:5000/muster-dev/{}:0.1.0", f"r.example:5000/{TORCH}")),
        ({"tag": "7"}, ("ghcr.io/muster-dev/{}:7", "pytorch/pytorch:7")),
        ({"digest": DIGEST}, (f"ghcr.io/muster-dev/{{}}:0.1.0@{DIGEST}", f"{TORCH}@{DIGEST}")),
    ],
    ids=["registry", "tag", "digest"],
)
def test_one_part_of_the_image_of_a_runtime_is_replaced_alone(helm, part, images):
    switched = {"enabled": True, "image": part}
    documents = helm.template({"runtimes": {"trlDistributed": {**switched, "grpo": ON}, "torchDistributed": switched}})
    found = {
        (name, each["name"]): each["image"]
        for name in ("trl-distributed", "trl-grpo", "torch-distributed")
        for each in containers(renders.one(documents, "ClusterTrainingRuntime", name))
    }
    trl, torch = images
    assert found == {
        ("trl-distributed", "node"): trl.format("trl"),
        ("trl-grpo", "node"): trl.format("rl"),
        ("trl-grpo", "sampler"): trl.format("rl"),
        ("torch-distributed", "node"): torch,
    }


def test_one_registry_is_for_all_images_of_muster_and_for_no_other(helm):
    values = copy.deepcopy(CHOICES["gateways whose engines take turns"])
    for image in (values["gateway"].get("image", {}), values["gateway"]["engines"].get("image", {})):
        image.pop("registry", None)
    values["image"] = {"registry": "registry.example/team"}
    values["runtimes"] = {"trlDistributed": {"enabled": True, "grpo": ON}, "torchDistributed": ON}
    text = json.dumps(helm.template(values, namespace="elsewhere"))
    named = set(re.findall(r"[\w./:-]*muster-dev/[a-z]+:[\w.-]+", text))
    assert {each.rpartition("/")[2].partition(":")[0] for each in named} >= {"webhook", "trl", "rl"}
    assert {each.rpartition("muster-dev/")[0] for each in named} == {"registry.example/team/"}
    assert f'"{TORCH}"' in text


def test_one_part_of_the_images_beside_a_gateway_is_replaced_alone(helm):
    values = copy.deepcopy(CHOICES["gateways whose engines take turns"])
    values["gateway"]["devices"]["image"] = {"registry": "agents.example"}
    values["gateway"]["engines"]["samplerImage"] = {"tag": "0.1.0-vllm"}
    own = gateway(documents := helm.template(values, namespace="elsewhere"))
    (container,) = renders.one(own, "Deployment")["spec"]["template"]["spec"]["containers"]
    repository = container["image"].partition("/")[2]
    (agent,) = renders.one(agents(documents), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert agent["image"] == f"agents.example/{repository}"
    (engine,) = (each.partition("=")[2] for each in container["args"] if each.startswith("--image="))
    sampler = f"{engine.rpartition(':')[0]}:0.1.0-vllm"
    assert f"--sampler-image={sampler}" in container["args"]
    assert f"['{engine}', '{sampler}']" in json.dumps(renders.one(own, "ValidatingAdmissionPolicy"))


def containers(runtime):
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return [each for job in jobs for each in job["template"]["spec"]["template"]["spec"]["containers"]]


def test_the_authority_that_cert_manager_makes_lies_in_another_secret_than_those_that_muster_makes(helm):
    documents = helm.template(CHOICES["cert-manager with a CA of its own"])
    authority = next(each for each in documents if each["kind"] == "Certificate" and each["spec"].get("isCA"))
    issuer = renders.one(documents, "Issuer", "muster")

    assert authority["spec"]["secretName"] == issuer["spec"]["ca"]["secretName"]
    # Whoever changes from one to the other must find no Secret that the next cannot read.
    assert (
        authority["spec"]["secretName"]
        != yaml.safe_load((renders.CHART / "values.yaml").read_text())["tls"]["secret"]["name"]
    )


def test_cert_manager_makes_a_certificate_that_muster_can_serve_and_fills_the_bundles(helm):
    documents = helm.template(CHOICES["cert-manager with a CA of its own"], namespace="elsewhere")
    leaf = renders.one(documents, "Certificate", "muster-tls")["spec"]
    assert leaf["dnsNames"][0] == "muster.elsewhere.svc"
    assert (leaf["privateKey"]["algorithm"], leaf["privateKey"]["size"]) == ("ECDSA", 256)
    assert "server auth" in leaf["usages"]
    assert leaf["issuerRef"]["name"] == renders.one(documents, "Issuer", "muster")["metadata"]["name"]
    (volume,) = (each for each in pod(documents)["spec"]["volumes"] if each["name"] == "tls")
    assert volume["secret"]["secretName"] == leaf["secretName"]
    for kind in renders.WEBHOOKS:
        annotations = renders.one(documents, kind)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "elsewhere/muster-tls"}


def test_with_an_issuer_of_yours_no_other_ca_is_made(helm):
    documents = helm.template(CHOICES["cert-manager with a company's CA"])
    assert "Issuer" not in kinds(documents)
    assert renders.one(documents, "Certificate")["spec"]["issuerRef"] == ISSUER


def test_a_guarded_network_lets_in_the_api_server_and_those_that_scrape(helm):
    spec = renders.one(helm.template(CHOICES["a guarded network"]), "NetworkPolicy", "muster")["spec"]
    (ingress,) = spec["ingress"]
    blocks = [{"ipBlock": {"cidr": each}} for each in ("10.0.0.0/28", "fd00::1/128")]
    assert ingress["from"] == [*blocks, {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    _, api = spec["egress"]
    assert (api["to"], [each["port"] for each in api["ports"]]) == (blocks, [6443])


def test_the_quota_for_a_system_priority_holds_a_whole_upgrade(helm):
    documents = helm.template({"replicas": 7})
    assert int(renders.one(documents, "ResourceQuota")["spec"]["hard"]["pods"]) >= 2 * 7 + 1
    assert "ResourceQuota" not in kinds(helm.template(CHOICES["a place of its own"]))


def test_alerts_are_those_of_the_file_for_this_namespace_with_the_address_of_the_runbook(helm):
    documents = helm.template(CHOICES["monitoring"], namespace="elsewhere")
    (written,) = files.documents(files.FOLDER / "monitoring" / "alerts.yaml")
    groups = renders.one(documents, "PrometheusRule")["spec"]["groups"]
    for group, original in zip(groups, written["groups"], strict=True):
        for rule, before in zip(group["rules"], original["rules"], strict=True):
            assert rule["expr"] == before["expr"].replace("muster-system", "elsewhere")
            runbook = before.get("annotations", {}).get("runbook_url", "")
            assert rule.get("annotations", {}).get("runbook_url", "") == (runbook and BASE + runbook)


BASE = "https://docs.example/muster/"


def test_dashboards_are_those_of_the_folder(helm):
    (dashboard,) = (
        each for each in helm.template(CHOICES["monitoring"]) if each["metadata"]["name"] == "muster-dashboard"
    )
    folder = files.FOLDER / "monitoring"
    assert dashboard["data"] == {path.name: path.read_text() for path in sorted(folder.glob("*.json"))}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_prometheus_verifies_the_certificate_where_it_can_be_given_the_ca_alone(helm):
    def tls(values):
        (endpoint,) = renders.one(helm.template(values), "ServiceMonitor")["spec"]["endpoints"]
        return endpoint["tlsConfig"]

    assert tls(CHOICES["monitoring of files"])["ca"] == {"secret": {"name": "muster-tls", "key": "ca.crt"}}
    assert tls(CHOICES["monitoring"]) == {"insecureSkipVerify": True}


def test_updates_are_sent_for_what_muster_changed_by_the_name_of_its_annotation(helm):
    entries = renders.one(helm.template(), "MutatingWebhookConfiguration")["webhooks"]
    expressions = [each["expression"] for entry in entries for each in entry.get("matchConditions", ())]
    assert sum(names.APPLIED_ANNOTATION in each for each in expressions) == 2


def test_the_guard_comes_with_the_image_of_the_deployment_unless_another_one_is_named(helm):
    assert renders.config(helm.template()).guard.inject == "never"
    documents = helm.template({"config": {"guard": {"inject": "open"}}, "image": {"registry": "r.example", "tag": "7"}})
    image = pod(documents)["spec"]["containers"][0]["image"]
    assert image.startswith("r.example/")
    assert renders.config(documents).guard.model_dump() == {"inject": "open", "mount": "init", "image": image}
    own = {"inject": "always", "mount": "image", "image": "mirror.example/muster:7"}
    assert renders.config(helm.template({"config": {"guard": own}})).guard.model_dump() == own


def test_the_lease_of_the_trainings_is_in_the_namespace_of_the_release_under_its_own_name(helm):
    trainings = {"enabled": True, "lease": {"name": "keepers", "retry": 1}}
    documents = helm.template({"config": {"trainings": trainings}}, namespace="elsewhere")
    lease = renders.config(documents).trainings.lease
    assert (lease.namespace, lease.name, lease.retry) == ("elsewhere", "keepers", 1)
    role = renders.one(documents, "Role", "muster-trainings")
    assert (role["metadata"]["namespace"], role["rules"][1]["resourceNames"]) == ("elsewhere", ["keepers"])


def test_anchors_go_to_the_namespace_of_the_release_and_keep_the_other_settings(helm):
    audit = {"anchors": "configmap", "anchorSettings": {"interval": 30}}
    documents = helm.template({"config": {"audit": audit}}, namespace="elsewhere")
    settings = renders.config(documents).audit.anchor_settings
    assert (settings.namespace, settings.interval) == ("elsewhere", 30)
    assert renders.one(documents, "Role", "muster-anchors")["metadata"]["namespace"] == "elsewhere"
    assert renders.config(helm.template({"config": {"audit": {"anchors": "configmap"}}})).audit.anchors == "configmap"


PAGES = {name: values for name, values in CHOICES.items() if "auditPage" in values}


@pytest.mark.parametrize("values", list(PAGES.values()), ids=list(PAGES))
def test_the_audit_page_fits_together_and_has_no_part_of_the_webhook(helm, values):
    documents = helm.template(values, namespace="elsewhere")
    template = renders.one(documents, "Deployment", "muster-audit-page")["spec"]["template"]
    spec, labels = template["spec"], template["metadata"]["labels"]
    (container,) = spec["containers"]
    for kind in ("Deployment", "Service", "NetworkPolicy"):
        found = renders.one(documents, kind, "muster-audit-page")["spec"]
        selector = found.get("selector") or found["podSelector"]
        selector = selector.get("matchLabels", selector)
        assert selector.items() <= labels.items()
        assert not selector.items() <= pod(documents)["metadata"]["labels"].items()
    assert renders.one(documents, "Service", "muster")["spec"]["selector"].items() - labels.items()
    assert spec["serviceAccountName"] == "muster-audit-page"
    (subject,) = renders.one(documents, "ClusterRoleBinding", "muster-audit-page")["subjects"]
    assert (subject["name"], subject["namespace"]) == ("muster-audit-page", "elsewhere")
    read_only = {each["name"]: each["readOnly"] for each in container["volumeMounts"]}
    assert set(read_only.values()) == {True}
    assert set(read_only) == {each["name"] for each in spec["volumes"]}


def test_the_page_is_started_with_words_that_the_command_takes(helm):
    documents = helm.template(CHOICES["an audit page of cert-manager"], namespace="elsewhere")
    (container,) = renders.one(documents, "Deployment", "muster-audit-page")["spec"]["template"]["spec"]["containers"]
    args = commandline.parser().parse_args(container["args"])
    assert (args.file, args.auth, args.namespace) == (["/var/log/muster/*/audit.log"], "cluster", "elsewhere")
    assert (args.host, args.port, str(args.tls)) == ("", container["ports"][0]["containerPort"], "/etc/muster-tls")
    leaf = renders.one(documents, "Certificate", "muster-audit-page-tls")["spec"]
    assert leaf["dnsNames"][0] == f"{audit_serve.SERVICE}.elsewhere.svc"
    assert all(container[each]["httpGet"]["path"] == HEALTH for each in ("livenessProbe", "readinessProbe"))


def test_readers_are_bound_to_the_right_that_the_page_asks_for(helm):
    documents = helm.template(CHOICES["an audit page of cert-manager"])
    (rule,) = renders.one(documents, "Role", "muster-audit-reader")["rules"]
    right = gates.reading("muster-system")
    assert (rule["verbs"], rule["apiGroups"], rule["resources"]) == ([right.verb], [right.group], [right.resource])
    (subject,) = renders.one(documents, "RoleBinding", "muster-audit-reader")["subjects"]
    assert subject["name"] == "platform"
    assert not [each for each in helm.template(CHOICES["an audit page"]) if each["kind"] == "RoleBinding"
                and each["metadata"]["name"] == "muster-audit-reader"]  # fmt: skip


def test_without_the_page_nothing_of_it_is_there(helm):
    assert webhook(helm.template()) == helm.template()


def test_each_replica_writes_its_log_into_a_folder_of_its_own(helm):
    spec = pod(helm.template(CHOICES["a log of each replica on one volume"]))["spec"]
    (container,) = spec["containers"]
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "audit-log")
    assert (mount["mountPath"], mount["subPathExpr"]) == ("/srv/audit", "$(POD_NAME)")
    assert [each["name"] for each in container["env"]] == ["POD_NAME", "A"]
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


GATEWAYS = {name: values for name, values in CHOICES.items() if "gateway" in values}
each_gateway = pytest.mark.parametrize("values", list(GATEWAYS.values()), ids=list(GATEWAYS))


@each_gateway
def test_a_gateway_fits_together_and_has_no_part_of_the_webhook(helm, values):
    documents = helm.template(values, namespace="elsewhere")
    settings, own = values["gateway"], gateway(documents)
    name, engines = settings.get("name", "gateway"), settings["engines"]["namespace"]
    template = renders.one(own, "Deployment")["spec"]["template"]
    spec, labels = template["spec"], template["metadata"]["labels"]
    for document in own:
        in_engines = document["kind"] in {"Role", "RoleBinding"}
        expected = None if document["kind"] in POLICIES else engines if in_engines else settings["namespace"] or engines
        assert document["metadata"].get("namespace") == expected
        said = document.get("spec", {})
        if selector := said.get("selector") or said.get("podSelector"):
            chosen = selector.get("matchLabels", selector)
            assert chosen.items() <= labels.items()
            assert not chosen.items() <= pod(documents)["metadata"]["labels"].items()
    assert renders.one(documents, "Service", "muster")["spec"]["selector"].items() - labels.items()
    assert (spec["serviceAccountName"], renders.one(own, "ServiceAccount")["metadata"]["name"]) == (name, name)
    (subject,) = renders.one(own, "RoleBinding")["subjects"]
    assert (subject["name"], subject["namespace"]) == (name, settings["namespace"] or engines)
    (container,) = spec["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in spec["volumes"]}


@each_gateway
def test_a_gateway_is_started_with_words_that_the_command_takes(helm, values, tmp_path, monkeypatch):
    settings, own = values["gateway"], gateway(helm.template(values, namespace="elsewhere"))
    (container,) = renders.one(own, "Deployment")["spec"]["template"]["spec"]["containers"]
    (tmp_path / "token").write_text("a")
    (tmp_path / "ca.crt").write_bytes(authorities.bundle_pem(authorities.create(datetime.now(UTC))))
    (tmp_path / "namespace").write_text(renders.one(own, "Deployment")["metadata"]["namespace"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    args = sessions.parser().parse_args([*container["args"], "--account", str(tmp_path)])
    made = pods.chosen(args).settings
    named = {name for rule in renders.one(own, "Role")["rules"] for name in rule.get(NAMES, ())}
    assert named == {manifests.name_of(made)}
    assert policies.unnamed(renders.one(own, "ValidatingAdmissionPolicy"), made) == set()
    (peer,) = manifests.policy(made, "u")["spec"]["ingress"][0]["from"]
    labels = renders.one(own, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    engines = settings["engines"]
    assert made.profiles == (*filter(None, [engines.get("profile")]), *engines.get("spillOver", ()))
    assert made.peers == renders.one(own, "Deployment")["metadata"]["namespace"]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts[str(made.root)]["subPath"] == made.volume.path
    assert mounts[str(made.base)]["subPath"] == made.base_volume.path
    schemes = {container[probe]["httpGet"]["scheme"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert schemes == {"HTTPS" if args.tls else "HTTP"}
    assert (str(args.tls) in mounts) is (not settings["tls"].get("plain", False))
    assert bool(args.limits) is bool(settings.get("limits"))


def test_gateways_that_share_a_database_have_its_url_and_password_from_a_secret(helm):
    own = gateway(helm.template(GATEWAYS["gateways that share a database"]))
    deployment = renders.one(own, "Deployment")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    read = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"]}
    assert read["MUSTER_JOURNAL"] == {"name": "journal", "key": "url"}  # also for `keys create` in the pod
    assert read["PGPASSWORD"] == {"name": "journal", "key": "password", "optional": True}
    assert "--journal=$(MUSTER_JOURNAL)" in container["args"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")
    assert renders.one(own, "NetworkPolicy")["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": 6432}]
    assert renders.one(own, "ConfigMap")["data"] == {"limits.toml": "[default]\nmodels = 10\n"}
    assert tomllib.loads(renders.one(own, "ConfigMap")["data"]["limits.toml"])["default"]["models"] == 10
    monitor = renders.one(own, "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] in {each["name"] for each in container["ports"]}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_agents_of_devices_serve_the_engines_of_the_gateway_and_may_no_more_than_that(helm):
    own = agents(documents := helm.template(GATEWAYS["gateways whose engines take turns"], namespace="elsewhere"))
    (gateways,) = renders.one(gateway(documents), "Deployment")["spec"]["template"]["spec"]["containers"]
    spec = renders.one(own, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (socket,) = (each.partition("=")[2] for each in gateways["args"] if each.startswith("--device-lease="))
    assert f"--socket={socket}" in container["args"]
    assert "--namespace=team-a" in container["args"]
    assert spec["hostPID"]
    assert spec["securityContext"]["runAsUser"] == 65532  # of the engines, so that it may end them without a capability
    (first,) = spec["initContainers"]
    assert (first["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (0, 65532)
    for each in (first, container):
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not each["securityContext"]["allowPrivilegeEscalation"]
    (volume,) = spec["volumes"]
    assert volume["hostPath"]["path"] == "/run/leases" == container["volumeMounts"][0]["mountPath"]
    rights = {each["metadata"]["namespace"]: each["rules"] for each in own if each["kind"] == "Role"}
    rights[""] = renders.one(own, "ClusterRole")["rules"]
    assert rights == {
        "team-a": [
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]},
            {
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourceclaims"],
                "resourceNames": ["muster-seat-0", "muster-seat-1", "muster-spare-0"],
                "verbs": ["patch"],
            },
        ],
        "": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}],
    }
    assert {each["metadata"].get("namespace") for each in own} == {"muster-devices", "team-a", None}
    assert (spec["runtimeClassName"], spec["nodeSelector"]) == ("nvidia", {"gpu": "yes"})
    assert container["image"] == spec["initContainers"][0]["image"] == "registry.example/agent:2"


def test_without_turns_there_is_no_agent(helm):
    assert agents(helm.template(GATEWAYS["a gateway"])) == []


SCRAPERS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def ingress(documents):
    """Who is let in to which ports by each NetworkPolicy, by its name; None for everybody."""
    own = [each for each in documents if each["kind"] == "NetworkPolicy"]
    return {
        (each["metadata"]["name"], rule["ports"][0]["port"]): rule.get("from")
        for each in own
        for rule in each["spec"].get("ingress", ())
    }


def test_by_itself_nobody_is_let_in_but_whom_the_chart_cannot_know(helm):
    values = {**CHOICES["gateways whose engines take turns"], **PAGE, "networkPolicy": {}}
    values["config"] = {**CHOICES["gateways whose engines take turns"]["config"], **PAGE["config"]}
    documents = helm.template(values)
    assert ingress(documents) == {
        ("muster", "webhook"): None,  # the address of the API server is not known, and it comes from no pod
        ("gateway", "gateway"): None,  # clients have keys
        ("gateway", "metrics"): [SCRAPERS],
        ("gateway-devices", "metrics"): [SCRAPERS],
    }
    every = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    assert len(every) == 4
    assert all(each["policyTypes"] == ["Ingress", "Egress"] for each in every)


def test_without_anybody_who_scrapes_metrics_are_closed_and_a_page_is_open_to_those_that_are_named(helm):
    values = {**CHOICES["gateways whose engines take turns"], "networkPolicy": {"metricsFrom": []}}
    assert set(ingress(helm.template(values))) == {("muster", "webhook"), ("gateway", "gateway")}
    page = {**PAGE, "auditPage": {"enabled": True, "clientsFrom": [SCRAPERS]}}
    assert ingress(helm.template(page))["muster-audit-page", "page"] == [SCRAPERS]


def test_a_gateway_lets_in_those_that_are_named(helm):
    clients, metrics = renders.one(gateway(helm.template(GATEWAYS["gateways that share a database"])), "NetworkPolicy")[
        "spec"
    ]["ingress"]
    assert clients["from"] == [{"namespaceSelector": {"matchLabels": {"team": "ml"}}}]
    assert metrics["from"] == [SCRAPERS]
    guarded = gateway(helm.template(GATEWAYS["a gateway with a certificate of cert-manager"]))
    spec = renders.one(guarded, "NetworkPolicy")["spec"]
    assert spec["ingress"][1]["from"] == [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    assert spec["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.0/28"}}]


def test_cert_manager_makes_the_certificate_of_a_gateway_for_the_names_of_its_service(helm):
    own = gateway(helm.template(GATEWAYS["a gateway with a certificate of cert-manager"]))
    leaf = renders.one(own, "Certificate")["spec"]
    assert leaf["dnsNames"] == ["gateway.gateways.svc", "gateway.gateways.svc.cluster.local", "rl.example.com"]
    assert leaf["issuerRef"] == ISSUER
    volumes = renders.one(own, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert leaf["secretName"] in [each.get("secret", {}).get("secretName") for each in volumes]
    values = {"tls": {"mode": "certManager"}, "gateway": {**GATEWAY, "namespace": "elsewhere", "tls": {}}}
    inside = gateway(helm.template(values, namespace="elsewhere"))
    assert renders.one(inside, "Certificate")["spec"]["issuerRef"]["name"] == "muster"


def test_without_a_gateway_nothing_of_it_is_there(helm):
    assert gateway(helm.template()) == []


def page():
    """The blocks of YAML on the page for a first session: what is applied, and the values."""
    text = (renders.CHART.parents[1] / "docs" / "sessions.md").read_text()
    text = text.partition("## A first session on Kubernetes")[2].partition("\n## ")[0]
    return [
        list(yaml.safe_load_all(each)) for each in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def test_the_page_for_a_first_session_has_objects_and_values_that_go_together(helm, kubernetes):
    applied, (values,) = page()
    assert [problem for each in applied for problem in kubernetes.problems(each)] == []
    own = gateway(helm.template(values))
    claims = [each["metadata"]["name"] for each in applied if each["kind"] == "PersistentVolumeClaim"]
    (container,) = renders.one(own, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert values["gateway"]["storage"]["claimName"] in claims
    assert f"--volume={claims[0]}:state" in container["args"]
    assert f"--base-volume={claims[0]}:models" in container["args"]
    namespaces = {each["metadata"]["namespace"] for each in own if each["kind"] not in POLICIES}
    assert namespaces == {applied[0]["metadata"]["name"]}
    images = {container["image"].removeprefix("registry.example/")}
    images |= {each.removeprefix("--image=registry.example/") for each in container["args"] if "--image" in each}
    assert images == {"muster-gateway:0.1.0", "muster-engine:0.1.0"}
