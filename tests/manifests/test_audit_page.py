"""The page of the audit log in the cluster has the rights that it needs and no other, and runs with none to spare."""

from __future__ import annotations

from muster.webhook.cli import arguments
from muster.webhook.cluster import callers
from muster.webhook.pages import gates
from muster.webhook.pages.page_server import HEALTH
from tests.manifests import files

FOLDER = files.FOLDER / "audit-page"
DOCUMENTS = [
    document
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in files.documents(path)
]


def one(kind, name="muster-audit-page"):
    (found,) = (each for each in DOCUMENTS if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def test_the_page_may_ask_about_callers_and_nothing_else():
    given = {(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in one("ClusterRole")["rules"]}
    paths = (callers.TOKENS, callers.ACCESS)
    assert given == {(path.split("/")[2], path.split("/")[4], "create") for path in paths}
    bound = [each["subjects"][0]["name"] for each in DOCUMENTS if each["kind"].endswith("Binding")]
    assert bound == ["muster-audit-page"]


def test_the_role_for_readers_is_the_right_that_the_page_asks_for():
    (rule,) = one("Role", "muster-audit-reader")["rules"]
    right = gates.reading("muster-system")
    assert (rule["apiGroups"], rule["resources"], rule["verbs"]) == ([right.group], [right.resource], [right.verb])


def test_the_page_runs_without_any_right_of_the_node_and_writes_nothing():
    spec = one("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(each["readOnly"] for each in container["volumeMounts"])
    assert "memory" in container["resources"]["limits"]


def test_it_is_started_with_words_that_the_command_takes_and_probed_where_it_answers():
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    args = arguments.parser().parse_args(container["args"])
    assert (args.auth, args.namespace, args.host) == ("cluster", "muster-system", "")
    assert args.port == container["ports"][0]["containerPort"]
    probes = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert probes == [{"path": HEALTH, "port": "page", "scheme": "HTTPS"}] * 2


def test_it_reads_where_the_patch_makes_replicas_write():
    (page,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    (webhook,) = one("Deployment", "muster")["spec"]["template"]["spec"]["containers"]
    (written,), (read,) = webhook["volumeMounts"], page["volumeMounts"]
    assert (read["mountPath"], written["subPathExpr"]) == (written["mountPath"], "$(POD_NAME)")
    assert page["args"][2] == f"{read['mountPath']}/*/audit.log"
