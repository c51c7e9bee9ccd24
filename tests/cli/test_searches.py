"""`muster check` and `muster explain` judge an OptimizationJob by its trials, at the places of its own text."""

from __future__ import annotations

from tests.cli import jobs
from tests.support import searches

RUNTIMES = ("--runtimes", jobs.EXAMPLES.parent / "runtimes")
SHORT = searches.choices("4", "8")


def check(muster, *documents, options=()):
    return muster("check", "-", *RUNTIMES, *options, stdin=jobs.stream(*documents))


def spec(search):
    return search["spec"]["trainJobTemplate"]["spec"]


def test_a_search_counts_as_a_job_and_ends_as_right_where_both_trials_are(muster):
    result = check(muster, searches.make(num_generations=SHORT), options=["--strict", "--strict-open", "-o", "json"])
    (found,) = result.json()
    assert (result.code, found["findings"], found["refused"]) == (0, [], False)
    assert (found["framework"], found["ending"]["kind"]) == ("trl", "right")
    assert "1 job: 0 errors" in result.err


def test_a_finding_has_the_line_of_the_word_that_the_author_wrote(muster):
    search = searches.make("--bogus=1", num_generations=searches.choices("4", "1"))
    result = check(muster, search)
    lines = jobs.stream(search).splitlines()
    for line, flag in zip(result.out.splitlines(), ("--bogus", "--num_generations"), strict=True):
        place, _, told = line.partition(": error: OptimizationJob/tune spec.trainJobTemplate.spec.trainer.args[")
        assert told
        assert flag in lines[int(place.split(":")[1]) - 1]
    assert result.code == 1


def test_the_template_has_the_members_of_a_trainjob(muster):
    search = searches.make()
    spec(search)["trainer"]["numNode"] = 2
    del spec(search)["runtimeRef"]
    (found,) = check(muster, search, options=["-o", "json"]).json()
    rules = {each["field"]: each["rule"] for each in found["findings"]}
    assert rules["spec.trainJobTemplate.spec.trainer.numNode"] == "core/unknown-field"
    assert rules["spec.trainJobTemplate.spec.runtimeRef"] == "core/required"
    assert found["refused"] is True


def test_a_runtime_that_no_file_holds_is_noted_once(muster):
    search = searches.make(num_generations=SHORT)
    spec(search)["runtimeRef"]["name"] = "elsewhere"
    (found,) = check(muster, search, options=["-o", "json"]).json()
    assert [each["field"] for each in found["findings"]] == ["spec.trainJobTemplate.spec.runtimeRef.name"]
    assert found["ending"]["kind"] == "open"


def test_a_variable_that_trainer_writes_too_is_written_twice(muster):
    search = searches.make(num_generations=SHORT)
    spec(search)["trainer"]["env"] = [{"name": "KUBEFLOW_TRAINER_OPT_num_generations", "value": "4"}]
    (found,) = check(muster, search, options=["-o", "json"]).json()
    assert found["refused"] is True
    assert found["findings"][0]["field"].startswith("spec.trainJobTemplate.spec.trainer.env[")


def test_explain_shows_the_search_then_its_first_trial_then_the_jobset_of_that(muster):
    search = searches.make(num_generations=SHORT)
    spec(search)["trainer"]["command"] = ["trl", "grpo"]
    result = muster("explain", "-", *RUNTIMES, "-o", "json", stdin=jobs.stream(search))
    found = result.json()
    assert [each["kind"] for each in found] == ["OptimizationJob", "TrainJob", "JobSet"]
    assert [bool(each["predicted"]) for each in found] == [False, True, True]
    assert "--num_generations=4" in found[0]["launch"]
    assert found[0]["changes"] == []
    assert found[1]["changes"][0]["path"] == "spec.trainer.command"
    assert {each["ending"]["kind"] for each in found} == {"right"}
    text = muster("explain", "-", *RUNTIMES, stdin=jobs.stream(search)).out
    assert "would make of the OptimizationJob above" in text.replace("\n  ", " ")
    assert "Muster changes no OptimizationJob" in text


def test_explain_ends_at_a_search_that_the_cluster_refuses(muster):
    search = searches.make("--bogus=1", num_generations=SHORT)
    result = muster("explain", "-", *RUNTIMES, "-o", "json", stdin=jobs.stream(search))
    (found,) = result.json()
    assert (result.code, found["refused"], found["ending"]["kind"]) == (1, True, "mend")


def test_render_leaves_a_search_as_it_is(muster):
    search = searches.make("--bogus=1")
    assert muster("render", "-", *RUNTIMES, "-o", "json", stdin=jobs.stream(search)).json() == [search]


def test_a_search_of_another_shape_is_an_error_and_no_traceback(muster):
    search = searches.make()
    search["spec"]["parameters"] = {"a": 1}
    result = check(muster, search)
    assert result.code == 1
    assert "OptimizationJob/tune spec.parameters: is an object, and must be a list" in result.out
