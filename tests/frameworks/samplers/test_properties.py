"""Whatever the arguments of both roles: words are only added, once, and a job without a sampler is what it was."""

from __future__ import annotations

import tomllib
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.frameworks.samplers.sampled_strategy import SampledTRLStrategy
from muster.strategies.frameworks.trl.trl_strategy import TRLStrategy
from tests.frameworks import test_trl_properties as trl
from tests.frameworks.builders import job_of, jobset_of
from tests.frameworks.sampled_jobs import GRPO, applied, enforce, found, grpo, sampled, sampler, serving_in
from tests.support import limits, row_problems

OF_TRL = st.sampled_from(
    [
        *(["--use_vllm"], ["--use_vllm=false"], ["--use_vllm", "$(USE)"], ["--vllm_mode", "server"]),
        *(["--vllm-mode=colocate"], ["--vllm_server_host", "x"], ["--vllm_server_base_url=http://localhost:8000"]),
        *(
            ["--vllm_server_base_url=$(URL)"],
            ["--vllm_server_timeout=3"],
            ["--model_name_or_path=m"],
            ["--"],
            ["--config"],
        ),
    ]
)
OF_VLLM = st.sampled_from(
    [
        *(["m"], ["--model", "n"], ["--port=9000"], ["--port", "$(PORT)"], ["--config", "f.yaml"], ["--dtype=half"]),
        *(["--tensor-parallel-size", "2"], ["-tp=4"], ["--enable-lora"], ["--max-loras=1"], ["--host", "127.0.0.1"]),
        *(["--weight-transfer-config", "{"], ["--weight-transfer-config.backend", "nccl"], ["--unknown"], ["--"]),
        *(["--logprobs-mode"], ["--api-key", "k"], ["--headless"], ["$(MORE)"], ["--revision", "v"], ["--uds=/s"]),
    ]
)
ADDED = ("--vllm_mode=server", "--vllm_server_base_url=http://$(MUSTER", "--vllm_server_timeout=1800")
COMMANDS = st.sampled_from(
    [GRPO, ["trl", "grpo"], ["trl", "rloo", "--use_vllm"], ["python", "t.py"], ["accelerate", "launch", "-m", GRPO[2]]]
)
SERVERS = st.sampled_from(
    [
        ["vllm", "serve"],
        None,
        ["bash", "-c", "vllm serve m"],
        ["trl", "vllm-serve"],
        ["python", "-m", "vllm.entrypoints.openai.api_server"],
    ]
)
NAMES = st.sampled_from(["sampler", "vllm", "judge", "rollout-1"])


@st.composite
def pairs(draw):
    """(TrainJob, runtime) of a training with one or two servers beside it."""

    def words(pieces):
        return [word for piece in draw(st.lists(pieces, max_size=5)) for word in piece]

    _, more = draw(trl.arguments())
    job = grpo(command=draw(COMMANDS), args=[*words(OF_TRL), *more], name=draw(st.sampled_from(["job", "long-name"])))
    labels = draw(st.sampled_from([None, {"muster.dev/role": "sampler"}]))
    servers = [
        sampler(name, labels=labels, command=draw(SERVERS), args=words(OF_VLLM))
        for name in draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    ]
    return job, sampled(*servers, ready=draw(st.booleans()))


@given(pairs())
@limits.MANY
def test_nothing_that_the_roles_say_is_changed_and_nothing_is_added_twice(pair):
    job, governing = pair
    alone = job_of(job, governing)
    TRLStrategy().enforce_command(alone, alone.changes)
    first, second = applied(job, governing)
    before = alone.document["spec"]["trainer"]
    assert [word for word in first.argv if not word.startswith(ADDED)] == [*before["command"], *before["args"]]
    for each in governing["spec"]["template"]["spec"]["replicatedJobs"][:-1]:
        own = each["template"]["spec"]["template"]["spec"]["containers"][0]["args"]
        now = serving_in(second, each["name"])
        assert now["args"][: len(own)] == own
    assert len(enforce("trl", first.document, governing).changes) == 0
    assert len(enforce("trl", second.document, governing, owner=first.document).changes) == 0


@given(pairs())
@limits.MANY
def test_what_is_told_is_a_sentence_about_a_field(pair):
    job, governing = pair
    document = enforce("trl", job, governing).document
    for each in found("trl", document, governing):
        assert each.field.startswith(("spec.", "metadata."))
        assert each.message
        assert not each.message.endswith(".")


@given(trl.arguments(), COMMANDS, st.booleans())
@limits.SOME
def test_a_job_without_a_sampler_is_what_it_was(given_, command, with_judge):
    governing = sampled(*[sampler("judge")] * with_judge)
    if not with_judge:
        del governing["spec"]["template"]["spec"]["replicatedJobs"][0]
    job = grpo(command=command, args=given_[1])
    before, now = job_of(job, governing), enforce("trl", job, governing)
    plain = TRLStrategy()
    plain.enforce_command(before, before.changes)
    assert [change.operation for change in before.changes] == [change.operation for change in now.changes]
    told = SampledTRLStrategy().validate(job_of(now.document, governing))
    assert list(told) == list(plain.validate(job_of(before.document, governing)))
    made = jobset_of(now.document, governing)
    second, owned = enforce("trl", made, governing, owner=now.document), job_of(made, governing, owner=now.document)
    for method in (plain.enforce_command, plain.enforce_rendezvous):
        method(owned, owned.changes)
    assert [change.operation for change in owned.changes] == [change.operation for change in second.changes]


def test_the_rows_about_both_roles_have_the_form_of_rows():
    file = resources.files("muster.strategies.frameworks.samplers").joinpath("pair_rows.toml")
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["row"]:
        of_one_line = {"refused": "no one line", "taken": "shows two roles"}
        assert list(row_problems.of_row(of_one_line | row)) == [], row
