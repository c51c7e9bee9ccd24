"""What the API server would refuse before any webhook is asked is found in a file, and nothing else is."""

from __future__ import annotations

import copy

import pytest

from muster.webhook.cli import schemas
from muster.webhook.cli.schemas import schema_shapes
from muster.webhook.kubeyaml import sources
from tests.cli import jobs

SHIPPED = sources.read([str(jobs.EXAMPLES), str(jobs.EXAMPLES.parent / "runtimes")]).sources


def found(document):
    """Field, message and rule of each finding."""
    kind = schemas.known_as(document)
    return [(each.field, each.message, each.rule) for each in schemas.check(document, kind)]


def changed(document, *path, to):
    document = copy.deepcopy(document)
    node = document
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = to
    return document


def only(document):
    (finding,) = found(document)
    return finding


@pytest.mark.parametrize("source", SHIPPED, ids=lambda source: str(source.origin).rpartition("/")[2])
def test_what_we_ship_is_as_its_kind_wants_it(source):
    kind = schemas.known_as(source.document)
    assert (kind is None) == (source.group not in ("trainer.kubeflow.org", "jobset.x-k8s.io"))
    assert kind is None or schemas.check(source.document, kind) == []


def test_the_definitions_are_those_of_the_pinned_modules():
    assert set(schema_shapes.kinds()) == {"TrainJob", "ClusterTrainingRuntime", "TrainingRuntime", "JobSet"}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (("spec", "trainer", "numNodess"), "; did you mean numNodes?"),
        (("spec", "trainer", "numnodes"), "; did you mean numNodes?"),
        (("spec", "trainer", "resources"), "; did you mean resourcesPerNode?"),
        (("spec", "numNodes"), "; numNodes is a field of trainer"),
        (("metadata", "lables"), "; did you mean labels?"),
        (("metadata", "muster.dev/role"), "; write it below annotations or labels"),
        (("spec", "trainer", "resourcesPerNode", "nvidia.com/gpu"), "; write it below limits or requests"),
        (("spec", "runtimeRef", "trainer"), "; trainer is a field of spec, and not of runtimeRef: write it there"),
        (("sepc",), "; did you mean spec?"),
        (("spec", "trainer", "gpus"), None),
    ],
)
def test_an_unknown_field_is_an_error_that_names_what_may_have_been_meant(path, hint):
    field, message, rule = only(changed(jobs.two_nodes(), *path, to={"x": 1}))
    assert (field.replace("[", ".").rstrip("]"), rule) == (".".join(path), "core/unknown-field")
    assert message == f"is not a known field{hint}" if hint else "known are args, command, env, image" in message


def test_a_field_of_pods_is_told_where_the_pods_of_a_trainjob_are_changed():
    _, message, _ = only(changed(jobs.two_nodes(), "spec", "trainer", "volumes", to=[]))
    assert "it is a field of pods or containers, which spec.runtimePatches changes" in message


@pytest.mark.parametrize("document", [jobs.jobset(), jobs.runtime()], ids=lambda document: document["kind"])
def test_a_field_deep_in_a_pod_template_is_named_by_its_keys(document):
    document = copy.deepcopy(document)
    spec = document["spec"].get("template", document)["spec"]
    pod = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resource"] = {}
    field, message, _ = only(document)
    assert field.endswith("replicatedJobs[node].template.spec.template.spec.containers[node].resource")
    assert message == "is not a known field; did you mean resources?"


@pytest.mark.parametrize(
    ("path", "value", "message", "rule"),
    [
        (("metadata", "labels"), {"a": 1}, "must be a string", "core/shape"),
        (("metadata", "annotations"), {"a": True}, "must be a string", "core/shape"),
        (
            ("spec", "trainer", "resourcesPerNode"),
            {"limits": {"cpu": 1.5}},
            "must be an integer or a string; quote",
            None,
        ),
        (("spec", "suspend"), "yes", "must be true or false", "core/shape"),
        (("spec", "trainer", "args"), ["a", 3], "must be a string", "core/shape"),
        (("spec", "trainer", "numNodes"), 1.5, "must be an integer", "core/shape"),
        (("spec", "trainer", "resourcesPerNode"), {"limits": {"cpu": []}}, "must be an integer or a string", None),
        (("spec", "trainer", "numNodes"), 2**31, "must fit in 32 bits", "core/value"),
        (("spec", "activeDeadlineSeconds"), 0, "must be at least 1", "core/value"),
        (("spec", "trainer", "args"), ["a"] * 129, "must have at most 128 entries", "core/value"),
        (("spec", "trainer", "image"), "x" * 501, "must have at most 500 characters", "core/value"),
        (("metadata", "name"), "x" * 64, "must have at most 63 characters", "core/value"),
        (("metadata", "name"), "Upper", "must match ^[a-z]([-a-z0-9]*[a-z0-9])?$", "core/value"),
        (("spec", "initializer"), {"model": {"storageUri": "gpt2"}}, "must match", "core/value"),
        (("spec", "managedBy"), "me", "must be one of trainer.kubeflow.org/trainjob-controller, kueue", "core/value"),
        (("spec", "trainer", "resourcesPerNode"), {"limits": {"cpu": "4 GB"}}, "is not a quantity", "core/value"),
        (("spec", "runtimeRef"), {"kind": "TrainingRuntime"}, "is required", "core/required"),
        (("spec", "runtimePatches"), [{}], "is required", "core/required"),
        (("metadata",), {}, "is required", "core/required"),
        (
            ("spec", "trainer", "env"),
            [{"name": "A"}, {"name": "A"}],
            "repeats an earlier entry",
            "core/duplicate-entry",
        ),
    ],
)
def test_a_value_that_the_definition_excludes_is_an_error(path, value, message, rule):
    (told,) = found(changed(jobs.two_nodes(), *path, to=value))
    assert told[1].startswith(message)
    assert rule in (told[2], None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels"), None),
        (("metadata", "creationTimestamp"), None),
        (("metadata",), {"generateName": "sft-"}),
        (("spec", "trainer", "env"), None),
        (("spec", "trainer", "surplus"), None),
        (("spec", "trainer", "numNodes"), 2**31 - 1),
        (("spec", "trainer", "resourcesPerNode"), {"limits": {"cpu": 1, "memory": "1.5Gi", "example.com/x": "1e3"}}),
        (("spec", "initializer"), {"model": {"storageUri": ""}, "dataset": {"storageUri": "hf://a/b"}}),
        (("status",), {"conditions": "anything"}),
        (("spec", "activeDeadlineSeconds"), 60.0),
        (("metadata", "managedFields"), [{"fieldsV1": {"f:a": {}}}]),
    ],
)
def test_what_the_api_server_takes_is_no_finding(path, value):
    assert found(changed(jobs.two_nodes(), *path, to=value)) == []


def test_ports_of_one_number_may_differ_in_their_protocol():
    ports = [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]
    assert found(jobs.jobset("set", jobs.container(ports=ports))) == []
    ports[1]["protocol"] = "TCP"
    assert only(jobs.jobset("set", jobs.container(ports=ports)))[2] == "core/duplicate-entry"


@pytest.mark.parametrize(
    ("version", "kind", "field"),
    [
        ("trainer.kubeflow.org/v2alpha1", "TrainJob", "apiVersion"),
        ("trainer.kubeflow.org/v1", "TrainJob", "apiVersion"),
        ("kubeflow.org/v2alpha1", "TrainJob", "apiVersion"),
        ("trainer.kubeflow.com/v1alpha1", "TrainJob", "apiVersion"),
        ("v1", "TrainJob", "apiVersion"),
        ("jobset.x-k8s.io/v1alpha1", "JobSet", "apiVersion"),
        ("jobset.sigs.k8s.io/v1alpha2", "JobSet", "apiVersion"),
        ("batch/v1", "JobSet", "apiVersion"),
        ("kubeflow.org/v1", "TrainJob", "apiVersion"),
        ("jobs.example.org/v1", "JobSet", None),
        ("jobset.x-k8s.io/v1alpha2", "Jobset", "kind"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJobs", "kind"),
        ("trainer.kubeflow.org/v1alpha1", "trainjob", "kind"),
        ("kubeflow.org/v1", "PyTorchJob", None),
        ("example.org/v1", "TrainJob", None),
        ("v1", "ConfigMap", None),
        ("apps/v1", "Deployment", None),
    ],
)
def test_a_version_or_kind_that_does_not_exist_is_an_error_and_a_foreign_one_is_not_ours(version, kind, field):
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
    meant = schemas.known_as(document)
    told = [each.field for each in schemas.check(document, meant) if each.rule == "core/api-version"] if meant else []
    assert told == ([field] if field else [])


def test_a_job_of_another_version_is_still_checked_for_the_rest(muster):
    document = {**jobs.trainjob(numNodes=0), "apiVersion": "kubeflow.org/v2alpha1"}
    result = muster("check", "-f", "-", stdin=jobs.stream(document))
    assert "'kubeflow.org/v2alpha1': does not exist; a TrainJob is of trainer.kubeflow.org/v1alpha1" in result.out
    assert "core/numbers" in result.out
    assert result.code == 1


def test_a_fault_is_told_once_where_a_rule_of_muster_tells_it_too(muster):
    document = jobs.trainjob(command="trl sft", resourcesPerNode={"limits": {"cpu": "4 GB"}})
    result = muster("check", "-f", "-", stdin=jobs.stream(document))
    assert result.out.count("spec.trainer.command") == 1
    del document["spec"]["trainer"]["command"]
    result = muster("check", "-f", "-", stdin=jobs.stream(document))
    assert result.out.count("limits") == 1


def test_a_runtime_of_the_input_is_checked_and_an_intact_one_is_no_job(muster):
    wrong = changed(jobs.runtime(), "spec", "mlPolicyy", to={})
    result = muster("check", "-f", "-", stdin=jobs.stream(wrong))
    assert "did you mean mlPolicy?" in result.out
    assert (result.code, result.err) == (1, "0 jobs: 1 error, 0 warnings; 1 other document checked\n")
    result = muster("check", "-f", "-", stdin=jobs.stream(jobs.runtime()))
    assert (result.code, result.err) == (0, "0 jobs: 0 errors, 0 warnings; 1 other document checked\n")


def test_a_hundred_thousand_faults_are_fifty_findings():
    document = changed(jobs.two_nodes(), "spec", "trainer", to={f"field-{number}": 1 for number in range(100_000)})
    assert len(found(document)) == 50
    document = changed(jobs.two_nodes(), "spec", "trainer", "args", to=[1] * 100_000)
    assert len(found(document)) == 50
