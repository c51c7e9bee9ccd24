"""Findings for code hosts: SARIF 2.1.0, and the workflow commands of GitHub."""

from __future__ import annotations

import json

import pytest

from muster.strategies.frameworks import builtin
from muster.webhook import catalogue
from tests.cli import jobs

ARGS = ["--dataset_name=d", "--model_name_or_path=m", "--bf16=true", "--fp16=true"]
WRONG = jobs.trainjob("wrong", command=["trl", "sft"], args=ARGS, numNodes=0)
SCRIPT = jobs.trainjob("script", command=["bash", "-c", "train \\ # two\n  --more"], numNodes=2)
LEVELS = {"none", "note", "warning", "error"}  # SARIF 2.1.0, 3.27.10


def sarif(muster, *arguments, stdin=""):
    result = muster("check", "-o", "sarif", *arguments, stdin=stdin)
    return json.loads(result.out), result


def only(things):
    (thing,) = things
    return thing


def test_a_log_has_one_run_of_muster_and_the_version_of_the_standard(muster):
    log, _ = sarif(muster, "-", stdin=jobs.stream(WRONG))
    assert set(log) == {"$schema", "version", "runs"}
    assert (log["version"], log["$schema"].endswith("sarif-schema-2.1.0.json")) == ("2.1.0", True)
    run = only(log["runs"])
    assert run["tool"]["driver"]["name"] == "Muster"
    assert run["columnKind"] == "unicodeCodePoints"  # ours are counted in characters
    assert only(run["invocations"])["executionSuccessful"] is True


def test_each_finding_is_a_result_with_rule_level_message_and_place(muster, write):
    path = write("jobs.yaml", jobs.stream(WRONG, SCRIPT))
    log, result = sarif(muster, path)
    run = only(log["runs"])
    told = muster("check", "-o", "json", path).json()
    expected = [
        (each["rule"], each["severity"], each["line"], each["column"]) for job in told for each in job["findings"]
    ]
    shown = []
    for each in run["results"]:
        assert set(each) == {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert each["level"] in LEVELS
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        place = only(each["locations"])["physicalLocation"]
        assert place["artifactLocation"]["uri"] == path.as_uri()
        shown.append((each["ruleId"], each["level"], place["region"]["startLine"], place["region"]["startColumn"]))
    assert (shown, result.code) == (expected, 1)
    assert {"error", "warning"} <= {level for _, level, _, _ in shown}
    numbers = next(each for each in run["results"] if each["ruleId"] == "core/numbers")
    assert numbers["message"]["text"] == "TrainJob/wrong spec.trainer.numNodes: 0: must be at least 1"
    name = only(only(numbers["locations"])["logicalLocations"])["fullyQualifiedName"]
    assert name == "default/TrainJob/wrong/spec.trainer.numNodes"


def test_a_rule_says_what_it_means_and_stands_once(muster):
    log, _ = sarif(muster, "-", stdin=jobs.stream(WRONG, WRONG))
    rules = only(log["runs"])["tool"]["driver"]["rules"]
    assert len({each["id"] for each in rules}) == len(rules)
    rule = next(each for each in rules if each["id"] == "core/numbers")
    assert rule["shortDescription"]["text"] == catalogue.load()["core/numbers"].title
    assert catalogue.load()["core/numbers"].wrong in rule["help"]["text"]
    assert "muster rule core/numbers" in rule["help"]["text"]


def test_a_relative_path_stays_relative_and_is_a_uri(muster, write, tmp_path, monkeypatch):
    write("with space/ä#%.yaml", jobs.stream(WRONG))
    monkeypatch.chdir(tmp_path)
    log, _ = sarif(muster, "with space")
    uris = {
        only(each["locations"])["physicalLocation"]["artifactLocation"]["uri"] for each in log["runs"][0]["results"]
    }
    assert uris == {"with%20space/%C3%A4%23%25.yaml"}


def test_what_cannot_be_read_is_a_notification_and_the_run_no_success(muster):
    log, result = sarif(muster, "-", stdin=jobs.stream(WRONG) + "---\na: [\n")
    invocation = only(only(log["runs"])["invocations"])
    assert (invocation["executionSuccessful"], result.code) == (False, 2)
    told = only(invocation["toolExecutionNotifications"])
    assert (told["level"], "is not YAML" in told["message"]["text"]) == ("error", True)
    region = only(told["locations"])["physicalLocation"]["region"]
    assert region["startLine"] > len(jobs.stream(WRONG).splitlines())


def test_no_finding_is_a_log_without_results(muster):
    log, result = sarif(muster, "-", stdin=jobs.stream(jobs.two_nodes()))
    assert (only(log["runs"])["results"], result.code) == ([], 0)


class Broken:
    """A strategy that fails."""

    framework, version = "broken", "1"

    def enforce_command(self, _job, _changes):
        raise RuntimeError("the tape: is torn,\n100%")

    enforce_rendezvous = enforce_claims = enforce_command

    def validate(self, _job):
        return ()


@pytest.fixture
def failing(monkeypatch):
    """A file with a job that no decision can be made about."""
    registry = builtin.load(plugins=False)
    registry.register(Broken())
    monkeypatch.setattr(builtin, "load", lambda: registry)
    return jobs.stream(jobs.runtime("own", "broken"), jobs.trainjob("job", "own", numNodes=1))


def test_a_failure_is_a_result_although_it_has_no_rule(muster, failing):
    log, result = sarif(muster, "-", stdin=failing)
    told = only(each for each in log["runs"][0]["results"] if each["ruleId"] == "failure")
    assert (told["level"], result.code) == ("error", 1)
    assert "the tape: is torn, 100%" in told["message"]["text"]
    assert {"id": "failure"} in log["runs"][0]["tool"]["driver"]["rules"]


def test_a_failure_is_a_workflow_command_although_it_has_no_rule(muster, failing):
    lines = muster("check", "-o", "github", "-", stdin=failing).out.splitlines()
    told = only(line for line in lines if "the tape" in line)
    assert told.startswith("::error file=stdin,line=")
    assert "the tape: is torn, 100%25" in told


def test_each_finding_is_a_workflow_command_with_its_place_and_rule(muster):
    result = muster("check", "-o", "github", "-", stdin=jobs.stream(WRONG, SCRIPT))
    lines = result.out.splitlines()
    expected = "::error file=stdin,line=18,col=5,title=core/numbers::TrainJob/wrong spec.trainer.numNodes: 0: "
    assert f"{expected}must be at least 1" in lines
    assert any(line.startswith("::warning file=stdin,line=") for line in lines)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


def test_what_github_would_take_for_syntax_is_escaped(muster, write):
    job = jobs.trainjob("a%b\n::error ::x", command="trl,sft: 100%", numNodes=1)
    path = write("one, two: 5%.yaml", jobs.stream(job))
    result = muster("check", "-o", "github", path)
    for line in result.out.splitlines():
        head, _, message = line.removeprefix("::").partition("::")
        assert "one%2C two%3A 5%25.yaml" in head
        assert "%" not in message.replace("%25", "")
    assert "'trl,sft: 100%25': must be a list" in result.out  # of the message, only what ends it is escaped


def test_what_cannot_be_read_is_an_error_at_its_line(muster, write):
    path = write("bad.yaml", "a: 1\n\tb: 2\n")
    result = muster("check", "-o", "github", path)
    assert (result.code, result.out.startswith(f"::error file={path},line=2::")) == (2, True)
