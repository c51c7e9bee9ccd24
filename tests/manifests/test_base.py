"""The parts of an installation fit each other and what the server really does: ports, probes, rights, times, files."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from muster.kube import transports
from muster.webhook import configs
from muster.webhook.cluster import kinds
from muster.webhook.metrics import Metrics
from muster.webhook.server import clusters, forks, health, services
from tests.manifests import bases, files


def test_the_service_selects_the_pods_of_the_deployment_and_reaches_the_port_that_is_listened_on():
    labels = bases.pod()["metadata"]["labels"]
    assert bases.one("Service")["spec"]["selector"].items() <= labels.items()
    assert bases.one("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (port,) = bases.container()["ports"]
    assert bases.one("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert port["containerPort"] == bases.config().server.port


def test_probes_ask_by_tls_for_paths_that_are_served():
    served = services._handlers(mock.Mock(), health.Health({}), Metrics())
    (port,) = bases.container()["ports"]
    probes = {name: bases.container()[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {each["path"] for each in probes.values()} <= set(served)
    assert probes["readiness"]["path"] == "/readyz"
    assert all((each["scheme"], each["port"]) == ("HTTPS", port["name"]) for each in probes.values())


def test_two_replicas_rather_share_a_node_than_not_run():
    (spread,) = bases.pod()["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"]["matchLabels"].items() <= bases.pod()["metadata"]["labels"].items()


def test_a_rolling_update_never_has_fewer_pods_than_wanted():
    assert bases.one("Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_a_pod_has_time_to_withdraw_and_to_answer_what_is_open():
    server = bases.config().server
    grace = bases.pod()["spec"]["terminationGracePeriodSeconds"]
    assert server.readiness_delay + server.shutdown_grace + 10 <= grace


# What it runs with


def test_the_configuration_is_where_the_command_looks_for_it():
    arguments = bases.container()["args"]
    path = Path(arguments[arguments.index("--config") + 1])
    mounted = {mount["name"]: Path(mount["mountPath"]) for mount in bases.container()["volumeMounts"]}
    assert path.parent == mounted["config"]
    assert set(bases.one("ConfigMap")["data"]) == {path.name}
    assert bases.one("ConfigMap")["metadata"]["name"] == volumes()["config"]["configMap"]["name"]


def volumes():
    return {volume["name"]: volume for volume in bases.pod()["spec"]["volumes"]}


def test_the_certificate_is_where_the_configuration_looks_for_it():
    tls = bases.config().tls
    mounted = {mount["name"]: Path(mount["mountPath"]) for mount in bases.container()["volumeMounts"]}
    assert [tls.cert_file, tls.key_file, tls.ca_file] == [mounted["tls"] / n for n in ("tls.crt", "tls.key", "ca.crt")]
    assert volumes()["tls"]["secret"] == {"secretName": "muster-tls", "defaultMode": 0o440}


def test_mounted_folders_follow_changes_and_do_not_lie_in_each_other():
    mounts = bases.container()["volumeMounts"]
    assert not any("subPath" in mount for mount in mounts)
    folders = [Path(mount["mountPath"]) for mount in mounts]
    assert not any(inner != outer and inner.is_relative_to(outer) for inner in folders for outer in folders)


def test_a_pod_may_do_nothing_that_it_does_not_need():
    spec, allowed = bases.pod()["spec"], bases.container()["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert allowed == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert bases.one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_memory_is_limited_and_cpu_is_not():
    resources = bases.container()["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_the_limit_of_memory_has_room_for_full_caches_and_as_many_children_as_there_may_be():
    limit = bases.container()["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    children = forks.AT_ONCE * forks.MEMORY
    assert children + 2 * bases.config().cluster.cache_limit <= int(limit.removesuffix("Mi")) * 1024**2


# What it may read


class NoApi:
    """An API server that is not there."""

    def get(self, *_request):
        raise transports.UnreachableError("nobody listens")

    async def close(self):
        pass


async def watched_kinds():
    live = clusters.LiveCluster(NoApi(), configs.ClusterSettings())
    try:
        return set(live.ages())
    finally:
        await live.stop()


async def test_the_role_allows_exactly_what_the_service_reads():
    watched = await watched_kinds()
    needed = {
        (kind.group, kind.plural): set(kind.verbs.split(", ")) if kind.name in watched else {"get"}
        for kind in kinds.KINDS.values()
    }
    allowed = {
        (group, resource): set(rule["verbs"])
        for rule in bases.one("ClusterRole", "muster")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert allowed == needed


def test_no_rule_allows_writing_or_everything():
    for rule in bases.one("ClusterRole", "muster")["rules"]:
        assert set(rule["verbs"]) <= {"get", "list", "watch"}
        assert "*" not in (*rule["apiGroups"], *rule["resources"])


def written(role):
    return {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]} - {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in ("list", "watch")
    }


def controllers(kind):
    path = files.FOLDER / "overlays" / "production" / "rbac-controllers.yaml"
    (only,) = (document for document in files.documents(path) if document["kind"] == kind)
    return only


def test_where_the_controllers_are_off_nothing_may_be_written():
    assert not bases.config().controllers.enabled
    roles = [document for document in bases.documents() if "rules" in document]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_the_controllers_may_write_what_they_write_and_nothing_else():
    role = controllers("ClusterRole")
    assert written(role) == {
        ("resourceclaims", "create"),
        ("resourceclaims", "patch"),
        ("resourceclaims", "delete"),
        ("resourceclaimtemplates", "create"),
        ("resourceclaimtemplates", "delete"),
        ("pods", "get"),
        ("pods", "patch"),
        ("pods", "delete"),
        ("events", "create"),
    }
    assert not any("*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"])


def test_the_lease_that_the_controllers_want_is_the_one_that_they_may_have():
    lease = configs.Config().controllers.lease
    role = controllers("Role")
    assert role["metadata"]["namespace"] == lease.namespace == bases.kustomization()["namespace"]
    assert {name for rule in role["rules"] for name in rule.get("resourceNames", ())} == {lease.name}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        binding = controllers(kind)
        assert binding["subjects"] == bases.one("ClusterRoleBinding", "muster")["subjects"]
        assert binding["roleRef"]["name"] == "muster-controllers"


def test_what_keeps_reports_may_annotate_jobsets_create_events_and_write_nothing_else():
    path = files.FOLDER / "overlays" / "production" / "rbac-trainings.yaml"
    (role,) = (document for document in files.documents(path) if document["kind"] == "ClusterRole")
    assert written(role) == {("jobsets", "get"), ("jobsets", "patch"), ("events", "create")}
    (lease,) = (document for document in files.documents(path) if document["kind"] == "Role")
    wanted = configs.Config().trainings.lease
    assert (lease["metadata"]["namespace"], lease["rules"][1]["resourceNames"]) == (wanted.namespace, [wanted.name])


def test_the_role_is_given_to_the_account_that_the_pods_run_as():
    (subject,) = bases.one("ClusterRoleBinding", "muster")["subjects"]
    account = bases.one("ServiceAccount")
    assert subject["name"] == account["metadata"]["name"] == bases.pod()["spec"]["serviceAccountName"]
    assert subject["namespace"] == bases.kustomization()["namespace"]
    assert (
        bases.one("ClusterRoleBinding", "muster")["roleRef"]["name"]
        == bases.one("ClusterRole", "muster")["metadata"]["name"]
    )
    assert (account["automountServiceAccountToken"], bases.pod()["spec"]["automountServiceAccountToken"]) == (
        False,
        True,
    )
