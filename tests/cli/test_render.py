"""`muster render`: documents as the cluster would store them; what is not a job passes through."""

from __future__ import annotations

import json

import jsonpatch
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.webhook import kubeyaml
from tests.cli import jobs

RENAMED = ["torchrun", "-m", "trl.scripts.sft"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
other_documents = st.builds(
    lambda kind, name, spec: {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec},
    st.sampled_from(["Service", "Widget", "TrainJob", "JobSet"]),
    st.text("abc", min_size=1),
    json_values,
)


def documents(result):
    return [parsed.value for parsed in kubeyaml.load_all(result.out)]


def test_a_job_is_put_out_as_the_cluster_would_store_it(muster):
    result = muster("render", "-f", "-", stdin=jobs.stream(jobs.two_nodes()))
    (document,) = documents(result)
    assert document["spec"]["trainer"]["command"] == RENAMED
    assert "muster.dev/applied" in document["metadata"]["annotations"]
    assert (result.code, result.err) == (0, "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(st.lists(other_documents, max_size=4), st.integers(0, 4))
def test_documents_of_other_kinds_leave_as_they_came(muster, others, place):
    stream = [*others[:place], jobs.two_nodes(), *others[place:]]
    rendered = documents(muster("render", "-f", "-", stdin=jobs.stream(*stream)))
    assert [each for each in rendered if each["apiVersion"] == "example.org/v1"] == others
    assert len(rendered) == len(stream)


def test_what_was_rendered_is_rendered_to_itself(muster):
    once = muster("render", "-f", jobs.EXAMPLES)
    again = muster("render", "-f", "-", stdin=once.out)
    assert documents(again) == documents(once)


def test_a_list_is_put_out_as_its_items(muster):
    document = {"apiVersion": "v1", "kind": "List", "items": [jobs.configmap(), jobs.two_nodes()]}
    rendered = documents(muster("render", "-f", "-", stdin=json.dumps(document)))
    assert [each["kind"] for each in rendered] == ["ConfigMap", "TrainJob"]
    assert rendered[1]["spec"]["trainer"]["command"] == RENAMED


def test_json_is_a_list_of_the_documents(muster):
    result = muster("render", "-f", "-", "-o", "json", stdin=jobs.stream(jobs.configmap(a="ä"), jobs.two_nodes()))
    assert [each["kind"] for each in result.json()] == ["ConfigMap", "TrainJob"]
    assert "ä" in result.out


def test_patches_are_lines_that_name_their_object_and_make_the_rendered_document(muster):
    given_ = [
        jobs.two_nodes(),
        jobs.configmap(),
        jobs.trainjob("torch", "torch-distributed", command=["torchrun", "x"]),
    ]
    stdin = jobs.stream(*given_)
    lines = [json.loads(line) for line in muster("render", "-f", "-", "-o", "patch", stdin=stdin).out.splitlines()]
    assert [line["object"]["name"] for line in lines] == ["sft", "torch"]
    assert lines[0]["object"]["document"] == 1
    rendered = documents(muster("render", "-f", "-", stdin=stdin))
    assert jsonpatch.apply_patch(given_[0], lines[0]["patch"]) == rendered[0]
    assert lines[1]["patch"] == []


def test_a_diff_shows_what_changes_and_nothing_where_nothing_does(muster):
    stdin = jobs.stream(
        jobs.configmap(), jobs.two_nodes(), jobs.trainjob("t", "torch-distributed", command=["torchrun"])
    )
    result = muster("render", "-f", "-", "-o", "diff", stdin=stdin)
    assert "--- stdin:doc 2 TrainJob/sft (before)" in result.out
    assert "\n-    - trl\n" in result.out
    assert "\n+    - torchrun\n" in result.out
    assert result.out.count("--- stdin") == 1


@pytest.mark.parametrize(("color", "coloured"), [("always", True), ("never", False), ("auto", False)])
def test_a_diff_has_colour_on_a_terminal_or_when_told(muster, color, coloured):
    result = muster("render", "-f", "-", "-o", "diff", "--color", color, stdin=jobs.stream(jobs.two_nodes()))
    assert ("\x1b[32m+" in result.out) == coloured


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_no_color_is_honoured_on_a_terminal(monkeypatch, variables, coloured):
    from muster.webhook.cli import terminal  # noqa: PLC0415  # as the command does

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert terminal.is_coloured("auto") == coloured


def test_a_denied_job_is_still_rendered_and_its_errors_are_said(muster):
    wrong = jobs.trainjob(command=["trl", "sft"], args=["--bf16=true", "--fp16=true"], numNodes=0)
    result = muster("render", "-f", "-", stdin=jobs.stream(wrong))
    assert result.code == 1
    assert documents(result)[0]["kind"] == "TrainJob"
    assert ": error: TrainJob/sft spec.trainer.numNodes: 0: must be at least 1 (core/numbers)" in result.err
    assert "(trl/precision)" in result.err


def test_warnings_go_to_stderr_and_are_no_failure(muster):
    script = jobs.trainjob(command=["bash", "-c", "echo train"], numNodes=2)
    result = muster("render", "-f", "-", stdin=jobs.stream(script))
    assert result.code == 0
    assert "warning" in result.err
    assert "trl/not-enforced" in result.err


def test_in_mode_warn_nothing_is_changed(muster):
    stdin = jobs.stream(jobs.namespace("team", "warn"), jobs.two_nodes())
    result = muster("render", "-n", "team", "-f", "-", stdin=stdin)
    assert documents(result)[1] == jobs.two_nodes()
    assert muster("render", "-n", "other", "-f", "-", stdin=stdin).out != result.out
    (line,) = muster("render", "-n", "team", "-o", "patch", "-f", "-", stdin=stdin).out.splitlines()
    assert json.loads(line)["patch"] == []


def test_in_mode_off_a_wrong_job_passes_in_silence(muster):
    stdin = jobs.stream(jobs.namespace("default", "off"), jobs.trainjob(command=["trl", "sft"], numNodes=0))
    result = muster("render", "-f", "-", stdin=stdin)
    assert (result.code, result.err) == (0, "")


def test_the_predicted_jobset_follows_its_trainjob_and_says_that_it_is_predicted(muster):
    result = muster("render", "-f", "-", "--jobset", stdin=jobs.stream(jobs.two_nodes(), jobs.configmap()))
    trainjob, jobset, _ = documents(result)
    assert (trainjob["kind"], jobset["kind"]) == ("TrainJob", "JobSet")
    assert jobset["metadata"]["annotations"]["muster.dev/predicted"] == "Kubeflow Trainer v2.3.0"
    assert "# Predicted, not for kubectl apply" in result.out
    env = jobs.env(jobset)
    assert env["PET_MASTER_ADDR"] == env["MASTER_ADDR"] == "sft-node-0-0.sft"
    assert env["MUSTER_EXPECTED_WORLD_SIZE"] == "2"


def test_the_patch_of_a_predicted_jobset_is_marked(muster):
    result = muster("render", "-f", "-", "--jobset", "-o", "patch", stdin=jobs.stream(jobs.two_nodes()))
    trainjob, jobset = [json.loads(line) for line in result.out.splitlines()]
    assert "predicted" not in trainjob["object"]
    assert jobset["object"]["predicted"] == "Kubeflow Trainer v2.3.0"
    assert any("MASTER_ADDR" in json.dumps(operation) for operation in jobset["patch"])


def test_the_jobset_is_predicted_from_the_runtime_that_trainer_froze(muster):
    frozen = jobs.runtime("trl-distributed", "trl", command=["torchrun", "-m", "trl.scripts.sft"])
    snapshot = jobs.configmap("sft-runtime-snapshot", runtime=kubeyaml.dump(frozen))
    result = muster("render", "-f", "-", "--jobset", stdin=jobs.stream(jobs.two_nodes(), snapshot))
    jobset = next(document for document in documents(result) if document["kind"] == "JobSet")
    (container,) = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.org/node:1"


def test_no_jobset_is_predicted_for_a_trainjob_that_would_be_refused(muster):
    wrong = jobs.trainjob(command=["trl", "sft"], args=["--bf16=true", "--fp16=true"])
    assert len(documents(muster("render", "-f", "-", "--jobset", stdin=jobs.stream(wrong)))) == 1


def test_nothing_is_rendered_when_a_part_of_the_input_cannot_be_read(muster, tmp_path):
    result = muster("render", "-f", "-", "-f", tmp_path / "missing.yaml", stdin=jobs.stream(jobs.two_nodes()))
    assert (result.code, result.out) == (2, "")
    assert result.err == f"muster: {tmp_path}/missing.yaml: cannot be read: No such file or directory\n"


def test_fields_that_muster_has_never_heard_of_survive(muster):
    job = jobs.two_nodes()
    job["spec"]["future"] = {"flag": [1, {"a": None}], "time": "2026-11-20"}
    (document,) = documents(muster("render", "-f", "-", stdin=jobs.stream(job)))
    assert document["spec"]["future"] == job["spec"]["future"]
    assert yaml.safe_load(kubeyaml.dump(document)) == document


def test_a_framework_of_the_configuration_without_a_strategy_is_told(muster, tmp_path):
    config = tmp_path / "muster.yaml"
    config.write_text("frameworks: {trll: {mode: off}}\n")
    result = muster("render", "-f", "-", "--config", str(config), stdin=jobs.stream(jobs.two_nodes()))
    assert "frameworks.trll: has no strategy; there are default, torch" in result.err
