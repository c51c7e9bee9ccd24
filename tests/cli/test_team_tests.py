"""`muster test`: a platform team's own cases, written by hand in a minute, that fail with a diff."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as Xml  # of our own output

import pytest
import yaml

from muster.strategies.frameworks import builtin
from muster.webhook.cli import case_files
from tests.cli import jobs
from tests.operations import pages

EXAMPLE = Path(__file__).parents[2] / "examples" / "team-tests"
PATCH = {"op": "replace", "path": "spec.trainer.command", "value": ["torchrun", "-m", "trl.scripts.sft"]}
WRONG = jobs.trainjob("wrong", command=["trl", "sft"], args=["--model_name_or_path=m", "--dataset_name=d"], numNodes=0)


@pytest.fixture
def case(write, tmp_path):
    """Write the files of one case, by their names without `.yaml`, and return its folder."""

    def make(name="cases/sft", job=None, **files):
        write(f"{name}/job.yaml", jobs.stream(*(job or [jobs.two_nodes()])))
        for file, content in files.items():
            write(f"{name}/{file}.yaml", content if isinstance(content, str) else yaml.safe_dump(content))
        return tmp_path / name

    return make


def only(result):
    (found,) = result.json()
    return found


def test_the_examples_pass_and_each_can_fail(muster, tmp_path):
    result = muster("test", EXAMPLE)
    assert (result.code, result.err) == (0, "5 cases: 5 passed\n")
    copy = shutil.copytree(EXAMPLE, tmp_path / "copy")
    for path in copy.glob("*/expected.yaml"):
        path.write_text(path.read_text().replace("decision: ", "decision: skipped # "))
    result = muster("test", copy)
    assert (result.code, result.err) == (1, "5 cases: 5 failed\n")


def test_the_examples_are_what_update_would_leave(muster, tmp_path):
    copy = shutil.copytree(EXAMPLE, tmp_path / "copy")
    assert muster("test", "--update", copy).code == 0
    for path in copy.rglob("*.yaml"):
        assert path.read_bytes() == (EXAMPLE / path.relative_to(copy)).read_bytes()


def test_a_case_that_is_as_expected_passes(muster, case):
    folder = case(
        expected={"decision": "patched", "framework": "trl", "mode": "enforce", "patch": [PATCH], "findings": []}
    )
    result = muster("test", folder)
    assert (result.code, result.out, result.err) == (0, f"ok    {folder}\n", "1 case: 1 passed\n")


def test_a_case_that_is_not_shows_what_was_expected_and_what_was_decided(muster, case):
    folder = case(expected={"decision": "unchanged", "findings": [{"rule": "core/numbers"}]})
    result = muster("test", folder)
    assert (result.code, result.err) == (1, "1 case: 1 failed\n")
    assert result.out.splitlines() == [
        f"FAIL  {folder}",
        f"--- {folder}/expected.yaml (expected)",
        f"+++ {folder}/expected.yaml (decided)",
        "@@ -1,3 +1,2 @@",
        "-decision: unchanged",
        "-findings:",
        "-- rule: core/numbers",
        "+decision: patched",
        "+findings: []",
    ]


def test_colour_is_for_those_who_ask(muster, case):
    folder = case(expected={"decision": "denied"})
    assert "\x1b[31m-decision: denied" in muster("test", "--color=always", folder).out
    assert "\x1b" not in muster("test", folder).out


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        ({"decision": "denied"}, 0),
        ({"findings": [{"rule": "core/numbers"}]}, 0),
        ({"findings": [{"field": "spec.trainer.numNodes", "value": 0, "severity": "error"}]}, 0),
        ({"findings": [{"message": "at least 1"}]}, 0),
        ({"findings": [{"rule": "core/numbers", "value": False}]}, 1),
        ({"findings": [{"message": "at least 2"}]}, 1),
        ({"findings": []}, 1),
        ({"findings": [{"rule": "core/numbers"}, {"rule": "core/numbers"}]}, 1),
        ({"decision": "patched"}, 1),
        ({"framework": "torch"}, 1),
        ({"mode": "warn"}, 1),
    ],
)
def test_only_what_is_written_is_compared(muster, case, expected, code):
    assert muster("test", case(job=[WRONG], expected=expected)).code == code


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (PATCH, 0),
        ({"path": "/spec/trainer/command"}, 0),
        ({"path": "spec.trainer.command", "rule": "trl/launch"}, 0),
        ({}, 0),
        ({**PATCH, "rule": "trl/other"}, 1),
        ({**PATCH, "op": "add"}, 1),
        ({**PATCH, "value": ["torchrun"]}, 1),
        ({"path": "spec.trainer.args"}, 1),
    ],
)
def test_an_operation_of_a_patch_is_compared_in_what_is_written_of_it(muster, case, operation, code):
    assert muster("test", case(expected={"patch": [operation]})).code == code


def test_a_patch_has_an_order_and_findings_have_none(muster, case):
    two = jobs.trainjob(
        "wrong", command=["trl", "sft"], args=["--learning_rte=1", "--bf16=true", "--fp16=true"], numNodes=0
    )
    folder = case(job=[two])
    muster("test", "--update", folder)
    path = folder / "expected.yaml"
    written = yaml.safe_load(path.read_text())
    assert len(written["findings"]) > 2
    path.write_text(yaml.safe_dump({**written, "findings": written["findings"][::-1]}))
    assert muster("test", folder).code == 0
    server = case(
        "cases/server",
        job=[
            jobs.jobset(
                "s",
                jobs.container(image="vllm/vllm-openai:v0.31.0", args=["--model=m"]),
                labels={jobs.FRAMEWORK: "vllm"},
            )
        ],
    )
    muster("test", "--update", server)
    path = server / "expected.yaml"
    written = yaml.safe_load(path.read_text())
    assert len(written["patch"]) > 2
    path.write_text(yaml.safe_dump({**written, "patch": written["patch"][::-1]}))
    assert muster("test", server).code == 1


def test_a_finding_that_says_more_is_looked_for_first(muster, case):
    two = jobs.trainjob(
        "wrong",
        command=["trl", "sft"],
        args=["--learning_rte=1", "--max_lenth=1", "--dataset_name=d", "--model_name_or_path=m"],
    )
    findings = [{"rule": "trl/unknown-flag"}, {"rule": "trl/unknown-flag", "field": "spec.trainer.args[0]"}]
    result = muster("test", "-o", "json", case(job=[two], expected={"findings": findings}))
    assert only(result)["result"] == "passed", only(result)["decided"]


def test_bookkeeping_is_no_part_of_a_patch_because_it_changes_with_each_release(muster, case):
    decided = only(muster("test", "-o", "json", case(expected={"patch": []})))["decided"]
    assert [each["path"] for each in decided["patch"]] == ["spec.trainer.command"]
    stored = muster("render", "-f", "-", stdin=jobs.stream(jobs.two_nodes())).out
    again = case("cases/again", old=stored, expected={"patch": []})
    decided = only(muster("test", "-o", "json", again))["decided"]
    assert [each["path"] for each in decided["patch"]] == ["spec.trainer.command"]


def test_update_writes_what_passes_and_keeps_the_words_and_the_comment_of_the_author(muster, case):
    text = "# Why this case is here.\n\ndecision: denied\nfindings:\n- message: at least 1\n- rule: core/gone\n"
    folder = case(job=[WRONG], expected=text)
    result = muster("test", "--update", folder)
    assert (result.code, result.out, result.err) == (0, f"new   {folder}\n", "1 case: 1 updated\n")
    assert (folder / "expected.yaml").read_text() == (
        "# Why this case is here.\n\ndecision: denied\nfindings:\n- message: at least 1\n"
    )
    assert muster("test", folder).code == 0


def test_update_writes_a_first_expectation(muster, case):
    folder = case()
    assert (
        "expected.yaml: does not exist; write it, or let `muster test --update` write it" in muster("test", folder).err
    )
    assert muster("test", "--update", folder).code == 0
    assert yaml.safe_load((folder / "expected.yaml").read_text()) == {
        "decision": "patched",
        "patch": [{**PATCH, "rule": "trl/launch"}],
        "findings": [],
    }
    assert muster("test", folder).code == 0


def test_update_leaves_files_that_pass_or_cannot_be_read_as_they_are(muster, case):
    text = "decision:    patched  # as it is\n"
    passing, broken = case("cases/a", expected=text), case("cases/b", expected="decison: denied\n")
    assert muster("test", "--update", passing.parent).code == 2
    assert (passing / "expected.yaml").read_text() == text
    assert (broken / "expected.yaml").read_text() == "decison: denied\n"


def test_an_expectation_that_expects_nothing_cannot_pass(muster, case):
    result = muster("test", case(expected="# later\n"))
    assert result.code == 2
    assert "expected.yaml: expects nothing; write `decision`" in result.err


def test_an_old_object_makes_the_case_an_update(muster, case):
    stored = yaml.safe_load(muster("render", "-f", "-", stdin=jobs.stream(jobs.two_nodes())).out)
    suspended = jobs.two_nodes()
    suspended["spec"]["suspend"] = True
    folder = case(job=[suspended], old=stored, expected={"patch": [{**PATCH, "rule": "core/restore"}]})
    result = muster("test", folder)
    assert result.code == 0, result.out + result.err


def test_settings_are_those_of_the_case_then_of_the_folders_above_key_by_key(muster, case, write):
    write("cases/case.yaml", "config: warn.yaml\nnamespace: team-a\n")
    write("cases/warn.yaml", "mode: warn\n")
    write("cases/off.yaml", "mode: 'off'\n")
    above = case("cases/above", job=[WRONG], expected={"decision": "unchanged", "mode": "warn"})
    own = case("cases/own", job=[WRONG], case="config: ../off.yaml\n", expected={"decision": "skipped"})
    assert muster("test", above.parent).code == 0
    assert muster("test", above).code == 0
    assert muster("test", own, above).code == 0


def test_a_folder_without_settings_ends_the_search_above_what_was_named(muster, case, write):
    write("case.yaml", "config: nowhere.yaml\n")
    folder = case("cases/sft", expected={"decision": "patched"})
    assert muster("test", folder).code == 0
    assert muster("test", folder.parent).code == 2


def test_a_relative_folder_finds_the_settings_above_too(muster, case, write, monkeypatch):
    write("cases/case.yaml", "config: off.yaml\n")
    write("cases/off.yaml", "mode: 'off'\n")
    monkeypatch.chdir(case(expected={"decision": "skipped"}))
    result = muster("test", ".")
    assert (result.code, result.out) == (0, "ok    .\n")


def test_runtimes_and_objects_are_those_of_the_case(muster, case, write):
    job = jobs.trainjob("own", "own", metadata={"namespace": "team"}, command=["trl", "sft"], numNodes=0)
    folder = case(
        job=[job],
        case={"runtimes": ["own/"], "objects": ["space.yaml"]},
        space=jobs.stream(jobs.namespace("team", "warn")),
        expected={"framework": "trl", "mode": "warn"},
    )
    write("cases/sft/own/runtime.yaml", jobs.stream(jobs.runtime("own", "trl")))
    result = muster("test", folder)
    assert result.code == 0, result.out + result.err


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("expected", "decison: denied", "1:1: decison: is not known here; did you mean decision?"),
        (
            "expected",
            "decision: deny",
            "1:1: decision: 'deny': must be patched, unchanged, denied, skipped or error; did you",
        ),
        ("expected", "a: 1", "1:1: a: is not known here; it may be decision, framework, mode, patch or findings"),
        (
            "expected",
            "findings:\n- rule: a\n  feild: b",
            "3:3: findings[0].feild: is not known here; did you mean field?",
        ),
        ("expected", "findings: none", "1:1: findings: 'none': must be a list"),
        ("expected", "findings:\n  - rule: 3", "2:5: findings[0].rule: 3: must be a text"),
        ("expected", "patch:\n  - spec", "2:5: patch[0]: 'spec': must be an object with op, path, value or rule"),
        ("expected", "patch:\n  - op: test", "2:5: patch[0].op: 'test': must be add, replace or remove"),
        ("expected", "- decision", "1:1: a list: must be an object with decision"),
        ("expected", "decision: denied\n---\ndecision: denied", "2:1: a second document starts here"),
        ("expected", "a: [", "is not YAML"),
        ("expected", "decision: denied\ndecision: denied", "2:1: the key 'decision' is written twice"),
        ("case", "runtime: [a]", "1:1: runtime: is not known here; did you mean runtimes?"),
        ("case", "runtimes: a.yaml", "1:1: runtimes: 'a.yaml': must be a list"),
        ("case", "config: none.yaml", "none.yaml: cannot be read: No such file or directory"),
        ("case", "runtimes: [none.yaml]", "none.yaml: cannot be read: No such file or directory"),
        ("case", "objects: [none.yaml]", "none.yaml: cannot be read: No such file or directory"),
        ("job", "a: b", "apiVersion: every Kubernetes object needs one"),
        ("job", jobs.stream(jobs.configmap()), "job.yaml: must hold one TrainJob or JobSet and holds none"),
        (
            "job",
            jobs.stream(jobs.two_nodes("a"), jobs.two_nodes("b")),
            "holds 2 of them; give each a folder of its own",
        ),
        ("old", "a: b", "old.yaml:1:1: apiVersion: every Kubernetes object needs one"),
    ],
)
def test_what_a_file_holds_wrongly_is_told_with_its_place_and_the_other_cases_run(muster, case, file, text, said):
    case("cases/other", expected={"decision": "patched"})
    folder = case(expected={"decision": "patched"}, job=[jobs.two_nodes()])
    (folder / f"{file}.yaml").write_text(text)
    result = muster("test", folder.parent)
    assert result.code == 2
    assert said in result.err
    assert result.err.splitlines()[-1] == "2 cases: 1 passed, 1 could not be tried"
    assert all(line.startswith("muster: ") for line in result.err.splitlines()[:-1])


def test_a_case_without_a_job_is_told(muster, case):
    folder = case(expected={"decision": "patched"})
    (folder / "job.yaml").unlink()
    result = muster("test", folder)
    assert (result.code, f"{folder}/job.yaml: cannot be read: No such file" in result.err) == (2, True)


def test_bytes_that_are_no_text_are_told(muster, case, write):
    folder = case()
    write("cases/sft/expected.yaml", b"decision: patched\n# \xff\n")
    assert "expected.yaml:2:1: is not UTF-8; save it as UTF-8" in muster("test", folder).err
    write("cases/sft/expected.yaml", b"#" * (1024 * 1024 + 1))
    assert "expected.yaml: is larger than 1 MiB" in muster("test", folder).err


def test_nothing_to_test_has_its_own_exit_code(muster, tmp_path):
    (tmp_path / "empty").mkdir()
    assert muster("test", tmp_path / "empty").code == 3
    assert muster("test").code == 2
    missing = muster("test", tmp_path / "none")
    assert (missing.code, missing.err) == (2, f"muster: {tmp_path}/none: does not exist\n")
    file = tmp_path / "file"
    file.touch()
    assert "is not a folder; name the folder of a case" in muster("test", file).err


def test_a_folder_that_is_named_twice_is_tested_once(muster, case):
    folder = case(expected={"decision": "patched"})
    assert muster("test", folder, folder, folder.parent).err == "1 case: 1 passed\n"


class Broken:
    """A strategy of a team's own that fails."""

    framework, version = "broken", "1"

    def enforce_command(self, _job, _changes):
        raise RuntimeError("out of order")

    enforce_rendezvous = enforce_claims = enforce_command

    def validate(self, _job):
        yield from ()


def test_a_decision_that_cannot_be_made_says_why(muster, case, monkeypatch):
    registry = builtin.load(plugins=False)
    registry.register(Broken())
    monkeypatch.setattr(builtin, "load", lambda: registry)
    runtime = jobs.runtime("own", "broken")
    folder = case(job=[runtime, jobs.trainjob("own", "own")], expected={"decision": "patched"})
    result = muster("test", folder)
    assert result.code == 1
    assert "+decision: error" in result.out
    assert "RuntimeError" in result.out.splitlines()[-1]
    (folder / "expected.yaml").write_text("decision: error\n")
    assert muster("test", folder).code == 0


def test_json_has_its_schema_and_everything_that_was_compared(muster, case):
    case("cases/a", expected={"decision": "patched"})
    case("cases/b", expected={"decision": "denied"})
    broken = case("cases/c", expected={"decision": 1})
    result = muster("test", "-o", "json", broken.parent)
    told = result.json()
    assert (result.code, {each["schema"] for each in told}) == (2, {"muster.dev/test/v1"})
    assert [each["result"] for each in told] == ["passed", "failed", "error"]
    assert told[1]["expected"] == {"decision": "denied"}
    assert told[1]["decided"] == {"decision": "patched"}
    (fault,) = told[2]["faults"]
    assert (fault["file"], fault["line"], fault["column"]) == (f"{broken}/expected.yaml", 1, 1)


def test_junit_has_a_failure_with_the_diff_and_an_error_for_what_cannot_be_read(muster, case):
    case("cases/a", expected={"decision": "patched"})
    case("cases/b", expected={"decision": "denied"})
    folder = case("cases/c", expected="decison: x")
    root = Xml.fromstring(muster("test", "-o", "junit", folder.parent).out)  # noqa: S314  # our own output
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    tests = {each.get("name"): each for each in root.iter("testcase")}
    assert list(tests["a"]) == []
    assert "-decision: denied\n+decision: patched" in tests["b"].findtext("failure")
    assert "expected.yaml:1:1: decison: is not known here" in tests["c"].findtext("error")
    assert tests["c"].get("file") == f"{folder}/expected.yaml"


def test_what_the_documentation_shows_has_the_form_that_is_read(write):
    text = pages.read("docs/check.md")
    expected, settings = (
        re.search(rf"^### {name}$.*?```yaml\n(.*?)```", text, re.MULTILINE | re.DOTALL)[1]
        for name in ("expected.yaml", "case.yaml")
    )
    assert set(case_files.read_form(write("expected.yaml", expected), case_files.EXPECTED)) == set(case_files.EXPECTED)
    assert set(case_files.read_form(write("case.yaml", settings), case_files.SETTINGS)) == set(case_files.SETTINGS)
    for word in (*case_files.DECISIONS, *case_files.EXPECTED, *case_files.SETTINGS):
        assert f"`{word}`" in text or f"\n{word}:" in text
