"""Members of another Trainer: what is told about them, and which Trainer is in force."""

from __future__ import annotations

import json

import pytest
import yaml

from muster.strategies.documents.runtimes import NEWEST, VERSIONS
from muster.webhook.cli import commandline, main
from muster.webhook.cli.schemas import check, known_as, schema_shapes
from muster.webhook.cluster import trainers
from muster.webhook.configs import sections
from tests.cli import jobs

RULE = "core/trainer-version"


def trainjob(**spec):
    gpus = {"limits": {"nvidia.com/gpu": 1}}
    made = jobs.trainjob(
        "llama", "torch-distributed", command=["torchrun", "train.py"], numNodes=2, resourcesPerNode=gpus
    )
    made["spec"] |= spec
    return made


OLDER = trainjob(podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}}}])


def told(document, version=NEWEST.name):
    found = check(document, known_as(document, VERSIONS[version]))
    assert {each.rule for each in found} <= {RULE}
    return [f"{each.field}: {each.message}" for each in found]


def runtime(**policy):
    return jobs.runtime(policy=policy)


def test_overrides_are_shown_as_patches_that_the_trainer_in_force_takes():
    (text,) = told(OLDER)
    assert "was removed in Trainer 2.2, so with Trainer 2.3 kubectl refuses the object" in text
    snippet = text.partition("write this: ")[2].partition("; `--trainer 2.1`")[0]
    patched = trainjob(**yaml.safe_load(f"{{{snippet}}}"))
    assert told(patched) == []
    assert patched["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"] == [
        {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}}
    ]


def test_patches_are_shown_as_overrides_where_trainer_has_those():
    patch = yaml.safe_load(told(OLDER)[0].partition("write this: ")[2].partition("; `--")[0].join("{}"))
    for version, member in (("2.1", "podTemplateOverrides"), ("2.0", "podSpecOverrides")):
        (text,) = told(trainjob(**patch), version)
        written = yaml.safe_load(text.partition("write this: ")[2].partition("; `--")[0].join("{}"))
        assert list(written) == [member]
        assert told(trainjob(**written), version) == []


@pytest.mark.parametrize("version", ["2.2", "2.3", "next"])
def test_the_version_that_a_file_is_right_for_is_named_only_if_all_of_it_is(version):
    assert "`--trainer 2.1`" in told(OLDER, version)[0]
    both = {**OLDER, "spec": {**OLDER["spec"], "activeDeadlineSeconds": 60}}
    assert "--trainer" not in told(both, version)[0]


@pytest.mark.parametrize(("version", "member"), [("2.0", "podSpecOverrides"), ("2.1", "podTemplateOverrides")])
def test_what_the_trainer_in_force_has_is_no_finding(version, member):
    assert told(trainjob(**{member: [{"targetJobs": [{"name": "node"}]}], "labels": {"a": "b"}}), version) == []


@pytest.mark.parametrize(
    ("document", "version", "words"),
    [
        (runtime(torch={"numProcPerNode": 4}), "2.3", "write `numProcPerNode: 4` into spec.trainer of each TrainJob"),
        (runtime(torch={"numProcPerNode": "cpu"}), "2.2", "a process for each CPU"),
        (runtime(torch={"elasticPolicy": {"maxRestarts": 1}}), "2.3", "no Trainer ever acted on it"),
        (runtime(jax={}), "2.1", "is known since Trainer 2.2, so with Trainer 2.1 kubectl refuses"),
        (runtime(torch={"envInjection": {"targets": []}}), "2.2", "write the PET_ variables into the env"),
        (trainjob(labels={"queue": "a"}), "2.3", "template: {metadata: {labels: {queue: a}}}"),
        (trainjob(activeDeadlineSeconds=9), "2.1", "write it into the Job of the runtime"),
        (trainjob(failurePolicy={"maxRestarts": 2}), "2.3", "is known since the next Trainer"),
        (trainjob(trainer={"resourceClaimsPerNode": []}), "2.3", "annotation muster.dev/resource-claims"),
        (trainjob(trainer={"numProcPerNode": "auto"}), "2.3", "only older Trainers take"),
    ],
)
def test_each_member_of_another_version_has_its_own_cure(document, version, words):
    assert words in " ".join(told(document, version))


def test_numbers_below_the_bounds_of_the_next_trainer_pass_until_then():
    wrong = trainjob(trainer={"numNodes": -1, "numProcPerNode": 0})
    assert check(wrong, known_as(wrong, VERSIONS["2.3"])) == []
    fields = [each.field for each in check(wrong, known_as(wrong, VERSIONS["next"]))]
    assert fields == ["spec.trainer.numNodes", "spec.trainer.numProcPerNode"]


def test_a_long_replacement_ends_between_two_entries():
    selector = {f"label-{number}": "x" * 40 for number in range(30)}
    (text,) = told(
        trainjob(podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": selector}}])
    )
    assert ", … (and so on, entry by entry)" in text


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_the_version_is_an_option_of_check_in_every_format(tmp_path, capsys, output):
    file = tmp_path / "older.yaml"
    file.write_text(json.dumps(OLDER))
    assert main.main(["check", str(file), "-o", output]) == 1
    assert "runtimePatches: [{manager" in capsys.readouterr().out
    assert main.main(["check", str(file), "-o", output, "--trainer", "v2.1.0"]) == 0
    assert RULE not in capsys.readouterr().out


def test_the_configuration_names_the_version_too(tmp_path, capsys):
    file, config = tmp_path / "older.yaml", tmp_path / "config.yaml"
    file.write_text(json.dumps(OLDER))
    config.write_text("apiVersion: muster.dev/v1alpha1\nkind: MusterConfig\ncluster: {trainer: 2.1}\n")
    assert main.main(["check", str(file), "--config", str(config)]) == 0
    assert main.main(["check", str(file), "--config", str(config), "--trainer", "2.2"]) == 1
    capsys.readouterr()


def test_an_unknown_version_is_refused_with_those_that_are_known(capsys):
    with pytest.raises(SystemExit):
        main.main(["check", "x.yaml", "--trainer", "1.9"])
    assert "2.0, 2.1, 2.2, 2.3, next" in capsys.readouterr().err
    assert commandline.trainer("v2.2.0") is VERSIONS["2.2"]


def test_the_configuration_takes_the_versions_that_the_command_line_takes():
    assert sections.Trainer.__args__ == tuple(VERSIONS)


def openapi(shape):
    if shape.items is not None:
        return {"type": "array", "items": openapi(shape.items)}
    return {"properties": {name: openapi(each) for name, each in (shape.properties or {}).items()}}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_is_known_by_the_trainjob_that_the_api_server_serves(version):
    shape = openapi(schema_shapes.kinds(version)["TrainJob"].shape)
    schema = {"components": {"schemas": {"org.kubeflow.trainer.v1alpha1.TrainJob": shape}}}
    assert trainers.served(schema) is VERSIONS[version]


def test_a_cluster_without_trainjobs_has_no_version():
    assert trainers.served({"components": {"schemas": {}}}) is None
