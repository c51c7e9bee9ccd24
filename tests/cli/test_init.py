"""`muster init` writes jobs that are right as they are, and that explain themselves to whoever trains."""

from __future__ import annotations

import re
import stat
from importlib import resources

import pytest

from muster.webhook import cli, kubeyaml
from muster.webhook.cli import commandline

SIZES = [(1, 1), (1, 8), (2, 1), (4, 2)]
KINDS = commandline.table().commands["init"].arguments["kind"]["choices"]
VOLUMES = [kind for kind in KINDS if kind not in ("torchtune", "vllm")]
ONE_NODE = {"torchtune"}
COMMENT = re.compile(r"^( *)# (- --.*|- fsdp2)$")
BLOCK = re.compile(r"^( *)# ( *(?:- )?[\w./-]+:(?: .*)?)$")

every_kind = pytest.mark.parametrize("kind", KINDS)


def asked(nodes, gpus):
    return ("--nodes", nodes, "--gpus", gpus)


def checked(muster, text):
    """Return the findings of a text, and how the explanation of each of its jobs ends."""
    found = muster("check", "-f", "-", "-o", "json", stdin=text).json()
    ends = muster("explain", "-f", "-", "-o", "json", stdin=text).json()
    return [each for job in found for each in job["findings"]], {each["ending"]["kind"] for each in ends}


def only_job(text):
    (job,) = (each.value for each in kubeyaml.load_all(text) if each.value["kind"] in ("TrainJob", "JobSet"))
    return job


def test_there_is_one_file_for_each_kind():
    folder = resources.files(cli).joinpath("starter_templates")
    assert {each.name for each in folder.iterdir() if each.name.endswith(".yaml")} == {f"{kind}.yaml" for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "nodes", "gpus"),
    [(kind, *size) for kind in KINDS for size in SIZES if size[0] == 1 or kind not in ONE_NODE],
)
def test_what_is_written_has_no_finding_and_is_called_right(muster, kind, nodes, gpus):
    written = muster("init", kind, *asked(nodes, gpus))
    assert (written.code, written.err) == (0, "")
    assert checked(muster, written.out) == ([], {"right"})


@pytest.mark.parametrize("kind", VOLUMES)
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (2, 4)])
def test_with_a_volume_it_is_right_too_and_writes_to_the_volume(muster, kind, nodes, gpus):
    written = muster("init", kind, *asked(nodes, gpus), "--volume", "team-results", "--name", "first")
    assert checked(muster, written.out) == ([], {"right"})
    pods = only_job(written.out)["spec"]["runtimePatches"][-1]["trainingRuntimeSpec"]["template"]["spec"]
    pod = pods["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "results", "persistentVolumeClaim": {"claimName": "team-results"}}]
    assert f"{pod['containers'][0]['volumeMounts'][0]['mountPath']}/first" in written.out


@pytest.mark.parametrize("kind", VOLUMES)
def test_the_volume_that_stands_in_a_comment_is_the_one_that_the_option_writes(muster, kind):
    plain, with_volume = (muster("init", kind, *each).out for each in ((), ("--volume", "claim")))
    lines = plain.replace("your-claim", "claim").replace("/tmp/output", f"/results/{kind}").splitlines()
    start = max(number for number, line in enumerate(lines) if "What a pod writes is gone" in line) + 1
    bare = [re.sub("^  # ", "  ", line) for line in lines[start:]]
    assert [*lines[:start], *bare] == with_volume.splitlines()


@every_kind
def test_each_argument_that_stands_in_a_comment_may_be_used(muster, kind):
    text = muster("init", kind, *asked(1, 4)).out
    groups, before = [], -2
    for number, line in enumerate(text.splitlines()):
        if COMMENT.match(line):
            groups = [*groups[:-1], [*groups[-1], number]] if number == before + 1 else [*groups, [number]]
            before = number
    for group in groups:
        used = [COMMENT.sub(r"\1\2", each) if n in group else each for n, each in enumerate(text.splitlines())]
        found, ends = checked(muster, "\n".join(used))
        assert (found, ends) == ([], {"right"}), group
    assert bool(groups) == kind.startswith("trl-")


@every_kind
def test_each_block_that_stands_in_a_comment_may_be_used(muster, kind):
    text = muster("init", kind).out
    groups, before = [], -2
    for number, line in enumerate(text.splitlines()):
        if BLOCK.match(line):
            groups = [*groups[:-1], [*groups[-1], number]] if number == before + 1 else [*groups, [number]]
            before = number
    assert groups
    for group in groups:
        used = [BLOCK.sub(r"\1\2", each) if n in group else each for n, each in enumerate(text.splitlines())]
        assert [each for each in checked(muster, "\n".join(used))[0] if each["severity"] == "error"] == [], group


@every_kind
def test_name_nodes_and_gpus_are_where_they_belong(muster, kind):
    nodes = 1 if kind in ONE_NODE else 3
    job = only_job(muster("init", kind, "--name", "mine", *asked(nodes, 4)).out)
    assert job["metadata"]["name"] == "mine"
    if job["kind"] == "TrainJob":
        trainer = job["spec"]["trainer"]
        found = (trainer["numNodes"], trainer["resourcesPerNode"]["limits"])
    else:
        servers = job["spec"]["replicatedJobs"][0]["template"]["spec"]
        container = servers["template"]["spec"]["containers"][0]
        found = (servers["parallelism"], container["resources"]["limits"])
        assert servers["completions"] == nodes
    assert found == (nodes, {"nvidia.com/gpu": 4})


@every_kind
def test_lines_are_short_enough_to_read_and_no_blank_is_left(muster, kind):
    text = muster("init", kind, *asked(1, 8)).out
    assert max(map(len, text.splitlines())) <= 120
    assert "$" not in text.replace("$(", "")
    assert "#volume" not in text


def test_the_program_of_torch_is_python(muster):
    documents = [each.value for each in kubeyaml.load_all(muster("init", "torch").out)]
    compile(documents[0]["data"]["train.py"], "train.py", "exec")
    assert documents[1]["spec"]["trainer"]["command"] == ["torchrun", "/program/train.py"]


def test_a_job_that_cannot_be_right_is_not_written_and_the_reason_is_told(muster, tmp_path):
    path = tmp_path / "job.yaml"
    result = muster("init", "torchtune", "--nodes", 2, "-w", path)
    assert (result.code, result.out, path.exists()) == (1, "", False)
    assert "spec.trainer.numNodes: 2: must be 1: torchtune trains" in result.err
    assert result.err.endswith("muster: nothing was written, because of the errors above; ask for another job\n")


def test_a_warning_is_told_and_the_job_is_written(muster):
    result = muster("init", "vllm", "--gpus", 3)
    assert result.code == 0
    assert "warning: JobSet/vllm" in result.err
    assert only_job(result.out)


def test_a_file_is_written_once_and_replaced_only_when_told(muster, tmp_path):
    path = tmp_path / "job.yaml"
    result = muster("init", "trl-sft", "--write", path)
    assert (result.code, result.out) == (0, "")
    assert result.err == f"muster: wrote {path}; read it, then `muster explain {path}` says what becomes of it\n"
    assert path.read_text() == muster("init", "trl-sft").out
    refused = muster("init", "trl-dpo", "--write", path)
    said = f"muster: {path}: exists already and was not changed; --force replaces it\n"
    assert (refused.code, refused.err) == (2, said)
    assert path.read_text() == muster("init", "trl-sft").out
    assert muster("init", "trl-dpo", "--write", path, "--force").code == 0
    assert path.read_text() == muster("init", "trl-dpo").out


def test_a_file_that_cannot_be_written_ends_in_one_line(muster, tmp_path):
    result = muster("init", "torch", "-w", tmp_path / "none" / "job.yaml")
    assert (result.code, result.err) == (
        2,
        f"muster: {tmp_path}/none/job.yaml: cannot be written: No such file or directory\n",
    )
    folder = muster("init", "torch", "-w", tmp_path, "--force")
    assert folder.err == f"muster: {tmp_path}: cannot be written: Is a directory\n"
    assert stat.S_ISDIR(tmp_path.stat().st_mode)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("trl_sft",), "argument KIND: 'trl_sft' is none of"),
        (("trl-sft", "--name", "My_Job"), "argument --name: 'My_Job' is not a valid name"),
        (("trl-sft", "--name", "a" * 64), "is not a valid name"),
        (("trl-sft", "--name", "a\nb"), "is not a valid name"),
        (("trl-sft", "--nodes", "0"), "argument --nodes: '0' is not a number from 1 to 9999"),
        (("trl-sft", "--gpus", "two"), "argument --gpus: 'two' is not a number from 1 to 9999"),
        (("torchtune", "--volume", "claim"), "--volume: a job of torchtune has no use for one"),
        (("vllm", "--volume", "claim"), "--volume: a job of vllm has no use for one"),
    ],
)
def test_what_is_asked_for_wrongly_is_told_in_one_line(muster, options, said):
    result = muster("init", *options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("claim", ["data.team", "0data", "a" * 63 + ".b"])
def test_a_claim_may_have_every_name_that_kubernetes_gives_one(muster, claim):
    assert f"claimName: {claim}" in muster("init", "trl-sft", "--volume", claim).out


@pytest.mark.parametrize("claim", ["Data", "a..b", "-a", "a" * 254])
def test_what_no_claim_is_called_is_refused(muster, claim):
    assert "is not a valid name of a claim" in muster("init", "trl-sft", f"--volume={claim}").err


def test_a_torchtune_job_on_several_nodes_has_one_error_and_no_model_that_nobody_named(muster):
    err = muster("init", "torchtune", "--nodes", "2").err
    assert err.count(": error: ") == 1
    assert "llama3_3" not in err
