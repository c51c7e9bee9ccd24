"""`muster explain`: why is my job like this? What governs it, what is changed by which rule, or why nothing is."""

from __future__ import annotations

import pytest

from muster.webhook.cli import terminal
from tests.cli import jobs


def explain(muster, *documents, options=()):
    return muster("explain", "-f", "-", *options, stdin=jobs.stream(*documents))


def explained(muster, *documents, options=()):
    return explain(muster, *documents, options=["-o", "json", *options]).json()


def unchanged(muster, *documents):
    return explained(muster, *documents, options=["--no-jobset"])[-1]["unchanged"]


def test_a_change_is_shown_with_path_before_after_rule_and_reason(muster):
    trainjob, _ = explained(muster, jobs.two_nodes())
    change = trainjob["changes"][0]
    assert (change["path"], change["pointer"]) == ("spec.trainer.command", "/spec/trainer/command")
    assert (change["before"], change["after"]) == (["trl", "sft"], ["torchrun", "-m", "trl.scripts.sft"])
    assert change["rule"] == "trl/launch"
    assert "torchrun reads PET_*" in change["reason"]


def test_what_governs_the_job_is_shown_with_where_it_was_found(muster):
    trainjob, _ = explained(muster, jobs.two_nodes())
    assert trainjob["framework"] == "trl"
    assert trainjob["strategy"] == {"framework": "trl", "version": "1", "origin": "in-tree"}
    assert (trainjob["runtime"]["name"], trainjob["runtime"]["source"]) == ("trl-distributed", "live")
    assert trainjob["runtime"]["file"].endswith("trl-distributed.yaml:doc 1")
    assert trainjob["mode"] == {"value": "enforce", "because": "the global mode"}
    assert trainjob["launch"].startswith("torchrun -m trl.scripts.sft ")
    assert trainjob["launch"].endswith("(2 nodes x 1 process)")


def test_the_predicted_jobset_is_explained_too_and_said_to_be_predicted(muster):
    trainjob, jobset = explained(muster, jobs.two_nodes())
    assert (trainjob["predicted"], jobset["predicted"]) == (None, "Kubeflow Trainer v2.3.0")
    paths = [change["path"].rsplit(".", 1)[-1] for change in jobset["changes"]]
    assert "env[MASTER_ADDR]" in paths
    assert "PREDICTED" in explain(muster, jobs.two_nodes()).out
    assert len(explained(muster, jobs.two_nodes(), options=["--no-jobset"])) == 1


def test_a_jobset_that_is_given_is_not_predicted(muster):
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "sft", "controller": True}
    given = jobs.jobset("sft", jobs.container(command=["torchrun", "x"]), ownerReferences=[{**owner, "uid": "u"}])
    found = explained(muster, jobs.two_nodes(), given)
    assert [(each["kind"], each["predicted"]) for each in found] == [("TrainJob", None), ("JobSet", None)]
    assert found[1]["framework"] == "trl"


def test_a_snapshot_is_the_runtime_of_the_jobset(muster):
    from muster.webhook import kubeyaml  # noqa: PLC0415  # beside its only use

    snapshot = jobs.configmap("sft-runtime-snapshot", runtime=kubeyaml.dump(jobs.runtime("trl-distributed", "trl")))
    snapshot["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "name": "sft", "controller": True}]
    _, jobset = explained(muster, jobs.two_nodes(), snapshot)
    assert (jobset["runtime"]["source"], jobset["framework"]) == ("snapshot", "trl")
    assert jobset["runtime"]["file"] == "stdin:doc 2"


def test_the_table_shows_paths_values_rules_and_reasons(muster):
    out = explain(muster, jobs.two_nodes()).out
    assert "PATH" in out
    assert "spec.trainer.command" in out
    assert '["trl", "sft"]' in out
    assert "trl/launch" in out
    assert "paths below start with spec.replicatedJobs[node]" in out
    assert "…env[MASTER_ADDR]" in out.replace("….", "…")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_table_fits_the_terminal(muster, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = muster("explain", "-f", jobs.EXAMPLES).out.splitlines()
    assert max(map(len, lines)) <= width


def test_a_terminal_narrower_than_the_least_width_is_not_followed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert terminal.terminal_width() == terminal.MIN_WIDTH


def test_long_values_are_cut_unless_all_is_asked_for(muster):
    tune = jobs.trainjob("t", "torchtune-llama3.2-1b", command=["tune", "run"], numNodes=1)

    def table(*options):
        out = explain(muster, tune, options=["--no-jobset", *options]).out
        return "".join(out.split("PATH", 1)[1].split())

    assert "…" in table()
    assert "checkpointer" not in table()
    assert "muster.dev/applied" not in table()
    assert "…" not in table("--full")
    assert "muster.dev/applied" in table("--full")


def test_a_live_object_tells_what_was_changed_when_it_was_created(muster):
    live = muster("render", "-f", "-", "-o", "json", stdin=jobs.stream(jobs.two_nodes())).json()[0]
    live["metadata"].update(uid="u-1", resourceVersion="7", managedFields=[{"manager": "kubectl"}])
    live["status"] = {"conditions": []}
    found = explained(muster, live, options=["--no-jobset"])[0]
    assert found["earlier"] == {"strategy": "trl", "version": "1", "fields": ["spec.trainer.command"]}
    assert found["unchanged"] == "there is nothing to change"
    out = explain(muster, live, options=["--no-jobset"]).out
    assert "earlier    strategy trl 1 set spec.trainer.command" in out


def test_a_note_that_is_not_ours_is_passed_over(muster):
    job = jobs.two_nodes(metadata={"annotations": {"muster.dev/applied": '{"fields": 3}'}})
    assert explained(muster, job)[0]["earlier"] is None


def test_nothing_changed_because_there_is_nothing_to_change(muster):
    job = jobs.trainjob("t", "torch-distributed", command=["torchrun", "x"])
    assert unchanged(muster, job) == "there is nothing to change"


def test_a_job_that_is_refused_is_not_called_right(muster):
    job = jobs.trainjob("t", "torch-distributed", command=["torchrun", "x"], numNodes=0)
    assert unchanged(muster, job) == "there is nothing to change; correct the errors below"


def test_nothing_changed_because_the_framework_has_no_strategy(muster):
    runtime = jobs.runtime("jax", "jax", policy={"jax": {}})
    assert "framework jax has no strategy" in unchanged(muster, runtime, jobs.trainjob("t", "jax", numNodes=1))


def test_nothing_changed_because_the_runtime_has_no_label(muster):
    runtime = jobs.runtime("bare", framework=None)
    assert "bare has no label trainer.kubeflow.org/framework" in unchanged(muster, runtime, jobs.trainjob("t", "bare"))


def test_nothing_changed_because_the_runtime_is_missing(muster):
    assert "ClusterTrainingRuntime nowhere was not found" in unchanged(muster, jobs.trainjob("t", "nowhere"))


def test_nothing_changed_because_a_jobset_speaks_for_no_framework(muster):
    assert "no label trainer.kubeflow.org/framework and no TrainJob owns it" in unchanged(muster, jobs.jobset())


def test_nothing_changed_because_the_owner_of_a_jobset_is_not_given(muster):
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "gone", "controller": True}
    assert "TrainJob gone" in unchanged(muster, jobs.jobset("set", ownerReferences=[{**owner, "uid": "u"}]))


def test_nothing_changed_because_the_members_have_wrong_types(muster):
    assert "wrong type" in unchanged(muster, jobs.trainjob(command="trl sft"))


@pytest.mark.parametrize(
    ("mode", "words"),
    [("off", "Muster is off for this job"), ("warn", "only warns here"), ("audit", "only records here")],
)
def test_nothing_changed_because_of_the_mode_and_the_mode_is_explained(muster, mode, words):
    documents = (jobs.namespace("default", mode), jobs.two_nodes())
    assert words in unchanged(muster, *documents)
    found = explained(muster, *documents)[0]
    assert found["mode"] == {"value": mode, "because": "label muster.dev/mode of namespace default"}
    assert bool(found["changes"]) == (mode != "off")


def test_the_configuration_is_named_when_it_decides_the_mode(muster, write):
    config = write("muster.yaml", "frameworks: {trl: {mode: warn}}")
    found = explained(muster, jobs.two_nodes(), options=["--config", config])[0]
    assert found["mode"] == {"value": "warn", "because": "the configuration of framework trl"}


def test_a_framework_that_the_author_of_a_jobset_chose_is_not_named_where_it_decides_nothing(muster, write):
    config = write("muster.yaml", "frameworks: {torch: {mode: off}}")
    labelled = jobs.jobset("one")
    labelled["metadata"]["labels"] = {"trainer.kubeflow.org/framework": "torch"}
    (found,) = explained(muster, labelled, options=["--config", config])
    assert found["mode"] == {"value": "enforce", "because": "the global mode"}


def test_findings_are_explained_and_errors_are_the_exit_code(muster):
    wrong = jobs.trainjob(command=["trl", "sft"], numNodes=0)
    result = explain(muster, wrong)
    assert result.code == 1
    assert "error spec.trainer.numNodes: 0: must be at least 1 (core/numbers)" in result.out
    assert "PREDICTED" not in result.out


def test_no_job_is_said_and_has_an_exit_code_of_its_own(muster):
    result = explain(muster, jobs.configmap())
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("muster: there is nothing to explain: ")


def test_input_that_cannot_be_read_ends_the_command(muster):
    result = muster("explain", "-f", "-", stdin="a: [")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("muster: stdin:doc 1 line ")


def test_the_demo_needs_no_file_and_shows_the_change_and_its_reason(muster):
    result = muster("demo")
    assert result.code == 0
    assert "trl.scripts.sft" in result.out.replace("\n", "")
    assert "trl/launch" in result.out
    assert "MASTER_ADDR" in result.out
    assert "did you mean --learning_rate?" in result.out


def test_a_runtime_is_told_to_be_from_its_file(muster):
    out = explain(muster, jobs.two_nodes()).out
    assert "(from file manifests/runtimes/trl-distributed.yaml" in " ".join(out.split())
    assert "live" not in out


def test_a_launch_is_broken_between_its_words_alone(muster):
    job = jobs.trainjob(command=["trl", "sft"], args=[f"--per_device_train_batch_size={each}" for each in range(9)])
    lines = explain(muster, job, options=["--no-jobset"]).out.splitlines()
    assert sum("--per_device_train_batch_size=" in word for line in lines[:12] for word in line.split()) >= 9
    assert not any(line.endswith(("_", "=")) for line in lines[:9])


def test_a_word_that_is_longer_than_a_line_is_broken():
    assert terminal.fill("one/two/three or", 8) == ["one/two/", "three or"]
