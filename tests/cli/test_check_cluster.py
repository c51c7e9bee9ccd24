"""`muster check --cluster`: what lives in a cluster, and files with what a cluster has, through the real client."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tests.cli import jobs
from tests.cluster.conftest import FakeApiServer, write_kubeconfig

WRONG = jobs.trainjob("wrong", "trl-distributed", command=["trl", "sft"], args=["--dataset_name=d"], numNodes=0)
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"


class Cluster:
    """A small API server on a thread of its own, since the command runs an event loop itself."""

    def __init__(self, folder):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.server = self.call(self._started())
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", self.server.url)

    async def _started(self):
        return await FakeApiServer().start()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def put(self, *documents, namespace="team-a"):
        for document in documents:
            metadata = document["metadata"]
            if document["kind"] not in ("Namespace", "ClusterTrainingRuntime"):
                metadata = {"namespace": namespace, **metadata}
            self.server.put({**document, "metadata": metadata})

    def asked(self, plural):
        return sum(1 for verb, kind, _ in self.server.seen if (verb, kind) == ("get", plural))

    def stop(self):
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    made = Cluster(tmp_path)
    made.put(
        jobs.namespace("team-a", "enforce"), jobs.namespace("team-b", "enforce"), jobs.runtime("trl-distributed", "trl")
    )
    yield made
    made.stop()


@pytest.fixture
def check(cluster, muster):
    def run(*options, stdin=""):
        return muster("check", "--cluster", "--kubeconfig", cluster.kubeconfig, *options, stdin=stdin)

    return run


def test_the_jobs_of_all_namespaces_are_checked_without_a_path(cluster, check):
    cluster.put(WRONG, jobs.two_nodes("right"))
    cluster.put(jobs.two_nodes("other"), jobs.jobset("set"), namespace="team-b")
    result = check()
    assert result.code == 1
    assert (
        "cluster/team-a: error: TrainJob/wrong spec.trainer.numNodes: 0: must be at least 1 (core/numbers)\n"
        in result.out
    )
    assert "TrainJob/right" not in result.out
    assert "\n3 jobs: " in result.err
    assert "cluster/team-b: JobSet/set was not judged" in result.err
    assert "1 document not judged (1 JobSet without a framework label)" in result.err


def test_one_namespace_may_be_chosen(cluster, check):
    cluster.put(WRONG)
    cluster.put(jobs.two_nodes("other"), namespace="team-b")
    result = check("-n", "team-b")
    assert (result.code, result.out, result.err) == (0, "", "1 job: 0 errors, 0 warnings\n")


def test_a_cluster_without_jobs_has_nothing_to_check(check):
    assert check().code == 3
    assert check("--allow-empty").code == 0


def test_a_cluster_that_does_not_serve_jobsets_has_none(cluster, check):
    cluster.server.not_served.add("jobsets")
    cluster.put(jobs.two_nodes())
    assert check().err == "1 job: 0 errors, 0 warnings\n"


def test_many_jobs_come_in_pages_and_what_they_share_is_fetched_once(cluster, check):
    for number in range(260):
        cluster.put(jobs.trainjob(f"job-{number}", numNodes=1))
    assert check().err.startswith("260 jobs: ")
    assert cluster.asked("clustertrainingruntimes") == 1
    assert cluster.asked("namespaces") == 1


def test_the_label_of_a_namespace_counts(cluster, check):
    cluster.put(jobs.namespace("team-a", "off"), WRONG)
    (found,) = json.loads(check("-o", "json").out)
    assert (found["file"], found["namespace"], found["mode"], found["line"]) == (
        "cluster/team-a",
        "team-a",
        "off",
        None,
    )


def test_a_jobset_is_governed_by_its_trainjob_and_the_runtime_of_the_cluster(cluster, check):
    owner = {
        "apiVersion": jobs.two_nodes()["apiVersion"],
        "kind": "TrainJob",
        "name": "sft",
        "uid": "u",
        "controller": True,
    }
    cluster.put(jobs.two_nodes("sft"), jobs.jobset("sft", ownerReferences=[owner]))
    items = json.loads(check("-o", "json").out)
    assert [each["framework"] for each in items] == ["trl", "trl"]


def test_a_file_is_checked_with_the_runtimes_and_namespaces_of_the_cluster(cluster, check):
    cluster.put(jobs.runtime("platform", "trl"), jobs.namespace("team-a", "warn"))
    job = jobs.trainjob("mine", "platform", command=["trl", "sft"], args=["--learning_rte=1"], numNodes=1)
    result = check("-n", "team-a", "-o", "json", "-", stdin=jobs.stream(job))
    (found,) = json.loads(result.out)
    assert (found["framework"], found["mode"], found["file"]) == ("trl", "warn", "stdin")
    assert "trl/unknown-flag" in {each["rule"] for each in found["findings"]}


def test_a_runtime_that_the_cluster_does_not_have_is_an_error_and_ours_do_not_stand_for_it(cluster, check):
    result = check("-", stdin=jobs.stream(jobs.trainjob("mine", "torch-distributed", numNodes=1)))
    assert result.code == 1
    assert "core/runtime-unknown" not in result.out
    assert "torch-distributed" in result.out


def test_a_runtime_of_the_files_wins_over_that_of_the_cluster(cluster, check, write):
    job = jobs.two_nodes()
    given = jobs.stream(jobs.runtime("trl-distributed", "torch"), job)
    (found,) = json.loads(check("-o", "json", "-", stdin=given).out)
    assert found["framework"] == "torch"
    path = write("runtime.yaml", jobs.stream(jobs.runtime("trl-distributed", "vllm")))
    (found,) = json.loads(check("-o", "json", "--runtimes", path, "-", stdin=jobs.stream(job)).out)
    assert found["framework"] == "vllm"


def test_a_namespace_that_may_not_be_read_is_told_once_and_its_jobs_are_checked(cluster, check):
    cluster.server.forbidden.add("/api/v1/namespaces/team-a")
    cluster.put(WRONG, jobs.two_nodes("right"))
    result = check()
    assert "cluster/team-a: error: TrainJob/wrong spec.trainer.numNodes" in result.out
    told = "muster: namespace team-a may not be read, so its label for the mode was not looked at\n"
    assert result.err.count(told) == 1


def test_a_runtime_that_may_not_be_read_is_no_runtime_that_does_not_exist(cluster, check):
    cluster.server.forbidden.add(f"{TRAINER}/clustertrainingruntimes/trl-distributed")
    cluster.put(jobs.two_nodes())
    result = check()
    assert result.code == 1
    assert "could not be fetched: HTTP 403: clustertrainingruntimes is forbidden" in result.out


def test_jobs_that_may_not_be_listed_end_the_command(cluster, check):
    cluster.server.forbidden.add(f"{TRAINER}/trainjobs")
    result = check()
    assert (result.code, result.out) == (2, "")
    assert result.err == "muster: the cluster cannot be read: HTTP 403: trainjobs is forbidden\n"


def test_a_cluster_that_is_not_there_ends_in_one_line(muster, tmp_path):
    missing = muster("check", "--cluster", "--kubeconfig", tmp_path / "none")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "there is no kubeconfig at" in missing.err


def test_a_context_is_chosen_by_its_name(cluster, check):
    cluster.put(jobs.two_nodes())
    assert check("--context", "x").code == 0
    assert check("--context", "none").code == 2


@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
def test_options_of_a_cluster_need_one(muster, option):
    result = muster("check", option, "x", "-", stdin=jobs.stream(jobs.two_nodes()))
    assert (result.code, result.err) == (2, f"muster: {option}: is for a cluster; give --cluster too\n")


@pytest.mark.parametrize("output", ["text", "json", "junit", "sarif", "github"])
def test_all_outputs_tell_of_a_job_that_has_no_file(cluster, check, output):
    cluster.put(WRONG)
    result = check("-o", output)
    assert result.code == 1
    assert "core/numbers" in result.out
    assert "cluster/team-a" in result.out


def claim_of(mode):
    metadata = {"name": "work"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"accessModes": [mode]}}


def mounting(name="mine"):
    volumes = [{"name": "work", "persistentVolumeClaim": {"claimName": "work"}}]
    pod = {"volumes": volumes, "containers": [{"name": "node", "volumeMounts": [{"name": "work", "mountPath": "/w"}]}]}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}}
    job = jobs.two_nodes(name)
    job["spec"]["runtimePatches"] = [{"manager": "example.org/w", "trainingRuntimeSpec": {"template": template}}]
    return job


@pytest.mark.parametrize(("mode", "told"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_the_access_modes_of_a_claim_of_the_cluster_count(cluster, check, mode, told):
    cluster.put(claim_of(mode))
    result = check("-n", "team-a", "-", stdin=jobs.stream(mounting()))
    assert ("core/shared-volume" in result.out) is told
    assert result.err.startswith("1 job: ")
    assert "ignored" not in result.err


def test_a_claim_of_the_files_wins_over_that_of_the_cluster(cluster, check):
    cluster.put(claim_of("ReadWriteOnce"))
    result = check("-n", "team-a", "-", stdin=jobs.stream(mounting(), claim_of("ReadWriteMany")))
    assert "core/shared-volume" not in result.out
    assert cluster.asked("persistentvolumeclaims") == 0


def test_claims_that_may_not_be_read_are_told_and_the_check_goes_on(cluster, check):
    cluster.server.forbidden.add("/api/v1/namespaces/team-a/persistentvolumeclaims/work")
    result = check("-n", "team-a", "-", stdin=jobs.stream(mounting()))
    assert "their access modes were not looked at" in result.err
    assert "1 job: " in result.err


def serves(member):
    spec = {"properties": {"spec": {"properties": {member: {"type": "array"}}}}}
    return {"components": {"schemas": {"org.kubeflow.trainer.v1alpha1.TrainJob": spec}}}


def test_the_trainer_of_the_cluster_is_the_one_that_its_api_server_serves(cluster, check):
    older = jobs.two_nodes("older")
    older["spec"]["podTemplateOverrides"] = [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"a": "b"}}}]
    assert "core/trainer-version" in check("-", stdin=json.dumps(older)).out
    cluster.server.openapi = serves("podTemplateOverrides")
    assert check("-", stdin=json.dumps(older)).code == 0
    assert "was removed in Trainer 2.2" in check("-", "--trainer", "2.3", stdin=json.dumps(older)).out
    cluster.server.openapi = serves("runtimePatches")
    assert "Trainer 2.2 has runtimePatches in its place" in check("-", stdin=json.dumps(older)).out
