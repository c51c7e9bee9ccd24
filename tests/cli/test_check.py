"""`muster check`: findings with their place, for people, programs and CI, and an exit code that tells."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as Xml  # of our own output

import pytest

from muster.strategies.documents import findings
from muster.strategies.frameworks import builtin
from tests.cli import jobs

ARGS = ["--dataset_name=d", "--model_name_or_path=m", "--bf16=true", "--fp16=true"]
WRONG = jobs.trainjob("wrong", command=["trl", "sft"], args=ARGS, numNodes=0)
WARNED = jobs.trainjob("script", command=["bash", "-c", "echo train"], numNodes=2)


def check(muster, *documents, options=()):
    return muster("check", "-f", "-", *options, stdin=jobs.stream(*documents))


def test_a_right_job_is_clean(muster):
    result = check(muster, jobs.two_nodes(), jobs.configmap())
    assert (result.code, result.out) == (0, "")
    assert result.err == "1 job: 0 errors, 0 warnings; 1 other document ignored\n"


def test_a_finding_has_place_severity_object_field_value_message_and_rule(muster):
    result = check(muster, jobs.configmap(), WRONG)
    assert result.code == 1
    lines = result.out.splitlines()
    assert "stdin:24:5: error: TrainJob/wrong spec.trainer.numNodes: 0: must be at least 1 (core/numbers)" in lines
    assert result.err == "1 job: 2 errors, 0 warnings; 1 other document ignored\n"


def test_people_are_told_once_how_a_finding_is_explained_and_programs_are_not(muster, monkeypatch):
    hint = "`muster rule ID` explains the id at the end of a finding\n"
    assert hint not in check(muster, WRONG).err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert check(muster, WRONG, WARNED).err.count(hint) == 1
    assert hint not in check(muster, WRONG, options=["-o", "json"]).err
    assert hint not in check(muster, jobs.two_nodes()).err


@pytest.mark.parametrize("output", ["text", "json", "junit", "sarif", "github"])
def test_a_finding_quotes_no_token_of_a_known_form_because_logs_of_ci_are_often_public(muster, output):
    args = [
        "--hub_tok",
        "hf_" + "a1" * 17,
        "--model_name_or_path=m",
        "hf_" + "a1" * 17,
        "--learning_rte=hf_" + "a1" * 17,
    ]
    job = jobs.trainjob("quoting", command=["trl", "sft"], args=args)
    result = check(muster, job, options=("-o", output))
    assert "does not belong to a flag" in result.out
    assert "a1a1" not in result.out + result.err


def test_warnings_do_not_fail(muster):
    result = check(muster, WARNED)
    assert result.code == 0
    assert ": warning: TrainJob/script spec.trainer.command" in result.out
    assert "0 errors, 1 warning" in result.err


def test_what_muster_mends_is_no_error(muster):
    inner = jobs.trainjob(command=["torchrun", "--nproc-per-node=4", "trl", "sft"], args=["--dataset_name=d"])
    inner["spec"]["trainer"]["args"] += ["--model_name_or_path=m"]
    assert check(muster, inner).code == 0


class Mender:
    """A strategy that mends what it would otherwise refuse."""

    framework, version = "mend", "1"

    def enforce_command(self, _job, changes):
        changes.set(("spec", "trainer", "image"), "mended", rule="mend/image", reason="it was broken")

    def enforce_rendezvous(self, _job, _changes):
        pass

    enforce_claims = enforce_rendezvous

    def validate(self, job):
        if job.trainer.image != "mended":
            yield findings.error("spec.trainer.image", None, "is not mended", rule="mend/image")


def test_validation_sees_the_job_that_mutation_left(muster, monkeypatch):
    registry = builtin.load(plugins=False)
    registry.register(Mender())
    monkeypatch.setattr(builtin, "load", lambda: registry)
    broken = jobs.trainjob("job", "own", numNodes=1)
    assert check(muster, jobs.runtime("own", "mend"), broken).code == 0


def test_the_namespace_of_a_document_wins_over_the_one_that_is_named(muster):
    off = jobs.namespace("own", "off")
    named = jobs.trainjob(command=["trl", "sft"], numNodes=0, metadata={"namespace": "own"})
    assert check(muster, off, named).code == 0
    assert check(muster, off, WRONG, options=["-n", "own"]).code == 0
    assert check(muster, off, WRONG).code == 1


def test_errors_count_whatever_the_mode_makes_of_them(muster):
    result = check(muster, jobs.namespace("default", "warn"), WRONG)
    assert result.code == 1
    assert check(muster, jobs.namespace("default", "off"), WRONG).code == 0


def test_members_of_the_wrong_type_are_findings_that_say_how_to_write_them(muster):
    broken = jobs.trainjob(command="trl sft", args=["--bf16", True, "--seed", 16], numNodes="2")
    result = check(muster, broken)
    assert result.code == 1
    for told in (
        "spec.trainer.command: 'trl sft': must be a list; write [trl, sft] (core/shape)",
        'spec.trainer.args[1]: true: must be a string; quote it: "true" (core/shape)',
        'spec.trainer.args[3]: 16: must be a string; quote it: "16" (core/shape)',
        "spec.trainer.numNodes: '2': must be an integer; write 2 without quotes (core/shape)",
    ):
        assert f"error: TrainJob/sft {told}" in result.out


def test_what_else_is_wrong_is_told_beside_members_of_the_wrong_type_that_have_an_evident_meaning(muster):
    broken = jobs.trainjob(command="trl sft", args=["--modle_name_or_path", "m", "--seed", 16], numNodes="2")
    result = check(muster, broken)
    assert "--model_name_or_path is missing" in result.out
    assert "'--modle_name_or_path': is not a flag of trl sft" in result.out


def test_nothing_is_said_of_the_rest_where_a_member_of_the_wrong_type_may_mean_anything(muster):
    broken = jobs.trainjob(command="trl sft | tee log", args=["--modle_name_or_path", "m"])
    assert "(core/shape)" in (said := check(muster, broken).out)
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("spec", [{"numNodes": 2}, {"runtimeRef": {"name": "trl-distributed", "trainer": {}}}])
def test_a_member_at_another_level_hides_and_makes_no_other_error(muster, spec):
    job = jobs.trainjob(command=["trl", "sft"], args=["--model_name_or_path", "m", "--seed", "x"])
    trainer = job["spec"].pop("trainer")
    if "numNodes" in spec:
        job["spec"] |= {"trainer": trainer} | spec
        where = "numNodes is a field of trainer"
    else:
        job["spec"]["runtimeRef"]["trainer"] = trainer
        where = "trainer is a field of spec, and not of runtimeRef: write it there"
    result = check(muster, job)
    assert where in result.out
    assert "has the value 'x', which is not a whole number" in result.out
    assert "--model_name_or_path is missing" not in result.out


@pytest.mark.parametrize("member", ["metadata", "spec"])
@pytest.mark.parametrize("value", ["text", [1], 3, True])
@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_a_job_of_any_shape_is_judged_and_never_a_traceback(muster, kind, member, value):
    document = {**(jobs.two_nodes() if kind == "TrainJob" else jobs.jobset()), member: value}
    result = check(muster, document)
    assert result.code == 1
    assert f"{member}: " in result.out
    assert "Traceback" not in result.out + result.err


def test_a_runtime_that_no_file_holds_is_a_note_that_says_how_to_give_it(muster):
    result = check(muster, jobs.trainjob(runtime="nowhere", numNodes=1))
    assert (
        "note: TrainJob/sft spec.runtimeRef.name: 'nowhere': no ClusterTrainingRuntime of this name is among"
        in result.out
    )
    assert "--runtimes FILE, which `kubectl get clustertrainingruntime nowhere -o yaml > FILE` writes" in result.out
    assert "(core/runtime-unknown)" in result.out
    assert result.code == 0


def test_a_namespaced_runtime_is_asked_for_in_its_namespace(muster):
    job = jobs.trainjob(metadata={"namespace": "team"})
    job["spec"]["runtimeRef"] = {"name": "own", "kind": "TrainingRuntime"}
    other = jobs.runtime("owns", kind="TrainingRuntime")
    result = check(muster, other, job)
    assert "`kubectl get -n team trainingruntime own -o yaml > FILE`" in result.out
    assert "did you mean" not in result.out  # that one is in another namespace


def test_a_misspelt_runtime_is_told_its_likely_name(muster):
    result = check(muster, jobs.trainjob(runtime="trl-distribted", numNodes=1))
    assert "did you mean trl-distributed? Else give it with --runtimes FILE" in result.out


@pytest.mark.parametrize("name", ["jax-distributed", "deepspeed-distributed", "mlx-distributed", "xgboost-distributed"])
def test_another_runtime_of_trainer_is_not_taken_for_a_misspelt_one(muster, name):
    result = check(muster, jobs.trainjob(runtime=name, numNodes=1))
    assert (result.code, "did you mean" in result.out) == (0, False)


def test_a_runtime_that_is_not_known_does_not_hide_what_needs_none(muster):
    job = jobs.trainjob(runtime="nowhere", numNodes=0, resourcesPerNode={"limits": {"nvidia.com/gpu": "many"}})
    result = check(muster, job)
    assert result.code == 1
    assert "core/numbers" in result.out
    assert "core/value" in result.out


@pytest.mark.parametrize(
    ("ref", "field"),
    [({"kind": "ClusterRuntime"}, "kind"), ({"apiGroup": "kubeflow.org"}, "apiGroup"), ({"apiGroup": ""}, "apiGroup")],
)
def test_what_is_no_runtime_at_all_is_an_error_offline_too(muster, ref, field):
    job = jobs.two_nodes()
    job["spec"]["runtimeRef"] |= ref
    result = check(muster, job)
    assert result.code == 1
    assert (
        f"error: TrainJob/sft spec.runtimeRef.{field}: {next(iter(ref.values()))!r}: is not one of a runtime"
        in result.out
    )
    assert "core/runtime-unknown" not in result.out


def test_nothing_is_said_about_the_runtime_where_muster_is_off(muster):
    assert check(muster, jobs.namespace("default", "off"), jobs.trainjob(runtime="nowhere")).out == ""


def test_input_that_cannot_be_read_does_not_hide_the_findings_of_the_rest(muster, write):
    path = write("bad.yaml", "a: [")
    result = muster("check", "-f", "-", "-f", path, stdin=jobs.stream(WRONG))
    assert result.code == 2
    assert "core/numbers" in result.out
    assert f"muster: {path}:doc 1 line" in result.err
    assert "; 1 could not be read" in result.err


def test_json_has_one_object_for_each_job_and_for_what_cannot_be_read(muster, write):
    path = write("bad.yaml", "a: [")
    result = muster("check", "-o", "json", "-f", "-", "-f", path, stdin=jobs.stream(WRONG, jobs.two_nodes()))
    wrong, right, unreadable = result.json()
    assert (wrong["file"], wrong["document"], wrong["name"], wrong["refused"]) == ("stdin", 1, "wrong", True)
    finding = next(each for each in wrong["findings"] if each["rule"] == "core/numbers")
    assert (finding["severity"], finding["field"], finding["value"]) == ("error", "spec.trainer.numNodes", 0)
    assert (finding["line"], finding["column"]) == (18, 5)
    assert (right["findings"], right["refused"], right["framework"]) == ([], False, "trl")
    assert unreadable["file"] == str(path)
    assert "is not YAML" in unreadable["unreadable"]


def test_junit_has_one_test_case_for_each_job(muster, write):
    path = write("bad.yaml", "a: [")
    documents = jobs.stream(WRONG, jobs.two_nodes(), WARNED, jobs.configmap())
    result = muster("check", "-o", "junit", "-f", "-", "-f", path, stdin=documents)
    root = Xml.fromstring(result.out)  # noqa: S314  # made by us
    suite = root.find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
    }
    wrong, right, script, unreadable = suite.findall("testcase")
    assert [case.get("name") for case in (wrong, right, script)] == [
        "TrainJob/wrong",
        "TrainJob/sft",
        "TrainJob/script",
    ]
    assert "stdin:18:5: error: TrainJob/wrong spec.trainer.numNodes" in wrong.find("failure").text
    assert [(case.get("file"), case.get("line")) for case in (wrong, right)] == [("stdin", "18"), ("stdin", "20")]
    assert len(right) == 0
    assert "trl/not-enforced" in script.find("system-out").text
    assert unreadable.find("error") is not None


def test_junit_holds_no_character_that_xml_has_not(muster):
    nasty = jobs.trainjob("a\x1b[31m\x00\ufffe", runtime='<&"\x07', numNodes=1)
    root = Xml.fromstring(check(muster, nasty, options=["-o", "junit"]).out)  # noqa: S314  # made by us
    assert root.find("testsuite/testcase/failure") is not None


def test_control_characters_of_a_document_are_shown_and_not_obeyed(muster):
    result = check(muster, jobs.trainjob("a\x1b[31mred\n", runtime="b\x1b[0m", numNodes=1))
    assert "\x1b" not in result.out + result.err
    assert "\\x1b[31mred" in result.out


def test_every_error_of_a_stream_is_found_and_not_only_the_first(muster):
    result = check(muster, *[jobs.trainjob(f"job-{number}", command=["trl", "sft"], numNodes=0) for number in range(5)])
    assert result.out.count("(core/numbers)") == 5


def test_documents_of_another_group_with_our_kinds_are_passed_over(muster):
    other = {**WRONG, "apiVersion": "example.org/v1"}
    result = check(muster, other)
    assert (result.code, result.err.splitlines()[1]) == (
        3,
        "0 jobs: 0 errors, 0 warnings; 1 document not judged (1 TrainJob)",
    )


@pytest.mark.parametrize("text", ["name: {{ .Values.name }}\n", "{{- if .Values.on }}\nname: a\n{{- end }}\n"])
def test_a_template_of_helm_is_named_as_one(muster, text):
    result = muster("check", "-", stdin=text)
    assert (result.code, "`helm template`" in result.err) == (2, True)
    assert "helm" not in muster("check", "-", stdin="name: {[1]: 2}\n").err


def test_nothing_to_check_is_said_and_has_an_exit_code_of_its_own(muster):
    nothing = muster("check", "-", stdin=jobs.stream(jobs.configmap()))
    assert nothing.code == muster("check", "-", stdin="").code == 3
    assert (
        "muster: there is nothing to check: no TrainJob, JobSet, OptimizationJob or runtime is among the documents"
        in nothing.err
    )
    assert check(muster, jobs.runtime("own", "trl")).code == 0  # a runtime is something


def test_nothing_to_check_is_clean_where_that_is_asked_for(muster):
    allowed = muster("check", "--allow-empty", "-", stdin="")
    assert (allowed.code, "there is nothing to check" in allowed.err) == (0, True)
    assert muster("check", "--allow-empty", "-", stdin="a: [").code == 2


def test_paths_need_no_option_and_stand_before_between_and_behind_options(muster, write):
    first, second = (write(f"{name}.yaml", jobs.stream(jobs.two_nodes())) for name in "ab")
    third = write("folder/c.yaml", jobs.stream(jobs.two_nodes()))
    result = muster("check", first, "-o", "text", second, "--strict", third.parent)
    assert (result.code, result.err) == (0, "3 jobs: 0 errors, 0 warnings\n")
    mixed = muster("check", "-f", first, second, "-f", third)
    assert (mixed.code, mixed.err) == (0, "3 jobs: 0 errors, 0 warnings\n")
    dash = muster("check", first, "--strict", "-", stdin=jobs.stream(jobs.two_nodes()))
    assert (dash.code, dash.err) == (0, "2 jobs: 0 errors, 0 warnings\n")


@pytest.mark.parametrize("command", ["check", "explain", "render"])
def test_paths_are_taken_by_each_command_and_are_missed_when_there_is_none(muster, write, command):
    path = write("a.yaml", jobs.stream(jobs.two_nodes()))
    assert muster(command, path) == muster(command, "-f", path)
    none = muster(command)
    assert none.code == 2
    assert none.err == f"muster: name files or folders, or - for stdin; see `muster {command} --help`\n"


@pytest.mark.parametrize("broken", ["spec: [", "a: 1\na: 2", "\tx", 'a: "', "@", "[a, b]", "kind: TrainJob"])
def test_a_document_that_cannot_be_read_does_not_hide_the_next(muster, broken):
    stdin = jobs.stream(jobs.two_nodes()) + f"---\n{broken}\n" + jobs.stream(WRONG) + "---\n{\n" + jobs.stream(WRONG)
    result = muster("check", "-o", "json", "-", stdin=stdin)
    assert result.code == 2
    right, wrong, again, *faults = result.json()
    assert [each["document"] for each in (right, wrong, again)] == [1, 3, 5]
    assert [each["document"] for each in faults] == [2, 4]
    for case in (wrong, again):
        found = next(each for each in case["findings"] if each["rule"] == "core/numbers")
        assert stdin.splitlines()[found["line"] - 1].strip() == "numNodes: 0"


def test_warnings_fail_where_the_check_is_strict(muster):
    assert [check(muster, WARNED, options=options).code for options in ([], ["--strict"])] == [0, 1]
    assert check(muster, jobs.two_nodes(), options=["--strict"]).code == 0
    junit = check(muster, WARNED, options=["--strict", "-o", "junit"])
    failure = Xml.fromstring(junit.out).find("testsuite/testcase/failure")  # noqa: S314  # made by us
    assert (failure.get("type"), 'failures="1"' in junit.out) == ("trl/not-enforced", True)


def rules(result):
    return {each["rule"] for job in result.json() for each in job["findings"]}


def test_rules_are_selected_and_ignored_by_id_and_by_group(muster):
    every = rules(check(muster, WRONG, options=["-o", "json"]))
    assert every == {"core/numbers", "trl/precision"}
    for options, left in (
        (["--select", "core/numbers"], {"core/numbers"}),
        (["--select", "trl,core/runtime"], {"trl/precision"}),
        (["--select", "trl", "--select", "core"], every),
        (["--ignore", "core/numbers, trl"], set()),
        (["--ignore", "trl"], {"core/numbers"}),
        (["--select", "core,trl", "--ignore", "core/numbers"], {"trl/precision"}),
    ):
        result = check(muster, WRONG, options=["-o", "json", *options])
        assert (rules(result), result.code) == (left, 1 if left else 0)
        (job,) = result.json()
        assert job["refused"] is True  # the cluster knows nothing of the selection


def test_what_is_not_selected_is_counted(muster):
    result = check(muster, WRONG, options=["--ignore", "core/numbers"])
    assert result.err == "1 job: 1 error, 0 warnings; 1 finding not selected\n"


@pytest.mark.parametrize("option", ["--select", "--ignore"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("core/nmbers", "'core/nmbers' is no rule or group of rules; did you mean core/numbers"),
        ("trl,tlr", "'tlr' is no rule or group of rules; did you mean trl?"),
        ("", "'' is no rule or group of rules; `muster rule` lists them"),
        ("nowhere/xyzzy", "'nowhere/xyzzy' is no rule or group of rules; `muster rule` lists them"),
    ],
)
def test_a_rule_that_does_not_exist_is_an_error_with_the_one_that_was_meant(muster, option, value, told):
    result = check(muster, WRONG, options=[option, value])
    assert (result.code, result.out) == (2, "")
    assert f"muster: {option}: {told}" in result.err


def test_rules_of_strategies_that_do_not_come_with_muster_can_be_selected(muster, monkeypatch):
    registry = builtin.load(plugins=False)
    registry.register(Mender())
    monkeypatch.setattr(builtin, "load", lambda: registry)
    assert check(muster, WRONG, options=["--select", "mend/anything"]).code == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["chek", "-"], "'chek' is none of demo, "),
        (["chek", "-"], "; did you mean check?"),
        (["check", "--strct", "-"], "'--strct' is not an argument of `muster check`; did you mean --strict?"),
        (["check", "--selct=trl", "-"], "did you mean --select?"),
        (["check", "-o", "jsn", "-"], "'jsn' is none of text, json, junit, sarif, github"),
        (["check", "-o", "jsn", "-"], "; did you mean json?"),
        (["audit", "shw", "-"], "; did you mean show?"),
        (["--hlep"], "'--hlep' is not an argument of `muster`; did you mean --help?"),
        (["audit", "--hlep"], "'--hlep' is not an argument of `muster audit`; did you mean --help?"),
        (["rule", "trl/launch", "more"], "'more' is not an argument of `muster rule`"),
    ],
)
def test_a_misspelt_argument_is_told_what_was_meant(muster, args, told):
    result = muster(*args)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
    assert len(result.err.splitlines()) == 1


def test_the_configuration_of_the_service_counts_when_it_is_given(muster, write):
    path = write("muster.yaml", "frameworks: {trl: {mode: 'off'}}")
    assert check(muster, WRONG, options=["--config", path]).code == 0


def test_a_configuration_that_cannot_be_used_is_an_error_with_its_path(muster, write):
    path = write("muster.yaml", "mood: enforce\nmode: maybe\n")
    result = check(muster, WRONG, options=["--config", path])
    assert result.code == 2
    assert all(line.startswith(f"muster: {path}: mo") for line in result.err.splitlines())
    assert len(result.err.splitlines()) == 2
