"""TRL's trainers and vLLM's server exchange weights by files: what is served is what was trained.

One server serves all of it. It takes minutes, most of them for vLLM's starts.
"""

import asyncio
import json
import re
import socket
import subprocess
import urllib.request

import pytest

from tests.contract.weights.conftest import PROGRAMS, READY
from tests.support.waits import until

pytestmark = pytest.mark.thorough

EXACT = 1e-5
"""Float32 on both sides: log probabilities of transformers and vLLM differ by some 1e-7."""
STEPS = 16


@pytest.fixture(scope="module")
def sampler(start, models):
    """A server that is ready."""
    begun = start(models / "untied")
    asyncio.run(until(lambda: begun.get("/muster_weights") is not None, limit=READY))
    return begun


@pytest.fixture(scope="module")
def programs(vllm, known):
    """Run a program to its end, or start it."""
    started = []

    def run(*command, wait=True, **environment):
        process = subprocess.Popen(
            [vllm, *map(str, command)], env=known(trainer=True, **environment),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        started.append(process)
        return process.communicate(timeout=READY)[0] if wait else process

    yield run
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture(scope="module")
def train(programs, models, sampler, tmp_path_factory):
    """TRL's GRPO as its command line starts it, in server mode, on the toy task."""

    def begin(steps, **environment):
        message = tmp_path_factory.mktemp("training") / "message"
        message.touch()
        process = programs(
            "-u", "-m", "trl.scripts.grpo", f"--model_name_or_path={models}/untied",
            f"--dataset_name={models}/data/grpo", f"--output_dir={message.parent}/output", "--use_cpu", "--bf16=false",
            "--dtype=float32", "--report_to=none", "--per_device_train_batch_size=8", "--learning_rate=3e-3",
            "--lr_scheduler_type=constant", f"--max_steps={steps}", "--save_strategy=no", "--logging_steps=1",
            "--reward_funcs=rewards.small_letters", "--num_generations=8", "--max_completion_length=16",
            "--use_vllm", "--vllm_mode=server", f"--vllm_server_base_url={sampler.url}",
            wait=False, MUSTER_TERMINATION_LOG=str(message), **environment,
        )  # fmt: skip
        return process, message

    return begin


def logged(output, name):
    return [float(value) for value in re.findall(rf"'{re.escape(name)}': '?([0-9.e+-]+)", output)]


@pytest.fixture(scope="module")
def said(programs, models, sampler, place):
    """What the sampler said and served for each fault, by its name."""
    output = programs(PROGRAMS / "faults.py", sampler.url, models / "untied", place / "shared")
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert lines, output[-3000:] + sampler.log.read_text()[-3000:]
    return {each["fault"]: each for each in lines}


def test_what_is_served_is_what_was_sent(said):
    assert said[None]["served"] < EXACT < 0.1 < said[None]["sent"]
    assert said["none"]["sent"] < EXACT < 0.1 < said["none"]["served"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("torn", "it is torn"),
        ("changed", "its hash differs"),
        ("planted", "manifest.json is not the one that the trainer wrote"),
        ("linked", "links are not followed"),
        ("older", "/2 is served already"),
        ("foreign", "holds this sampler"),
        ("another_model", "lacks 20 tensors"),
        ("digest", "is not the one that the trainer wrote"),
    ],
)
def test_what_is_hurt_is_refused_with_a_reason_and_the_old_weights_go_on_serving(said, fault, reason):
    found = said[fault]
    assert reason in found["reason"]
    assert found["served"] < EXACT < 0.1 < found["sent"]
    assert found["state"]["version"] == 2


def test_nobody_takes_a_sampler_whose_trainer_lives(said):
    assert "holds this sampler" in said["taken"]["reason"]
    assert said["taken"]["state"]["run"] == said["none"]["state"]["run"]


def test_a_trainer_that_ends_leaves_no_file_behind(said):
    assert said["end"]["left"] == []


async def test_a_server_that_a_dead_trainer_left_paused_goes_on_and_takes_the_next_one(
    said, sampler, programs, models, train, place
):
    output = programs(PROGRAMS / "dying.py", sampler.url, models / "untied")
    (run,) = re.findall(r"^(run-\w+) True$", output, re.MULTILINE)
    assert (place / "shared" / run).exists()
    await until(lambda: (sampler.get("/is_paused") or {"is_paused": True})["is_paused"] is False, limit=READY)

    process, message = train(STEPS)
    output = process.communicate(timeout=READY)[0]

    assert process.returncode == 0, output[-3000:]
    rewards, differences = logged(output, "reward"), logged(output, "sampling/sampling_logp_difference/mean")
    assert len(rewards) == len(differences) == STEPS, output[-3000:]
    assert max(differences) < EXACT
    assert sum(rewards[-4:]) > 2 * sum(rewards[:4])
    assert not (place / "shared" / run).exists(), "the files of the dead one go with the first version of the next"
    assert [each.name for each in (place / "shared").glob("run-*")] == ["run-foreign"]
    assert "muster:" not in message.read_text()


async def test_a_training_goes_on_when_the_engine_is_killed_and_no_step_sees_other_weights(said, sampler, train):
    ended = len(sampler.codes)
    process, _ = train(STEPS)
    output = ""
    while len(logged(output, "reward")) < 3:
        line = process.stdout.readline()
        assert line, output[-3000:]
        output += line
    sampler.kill()
    output += process.communicate(timeout=READY)[0]

    assert process.returncode == 0, output[-3000:]
    assert sampler.codes[ended:] == [1], "the server ends with 1, so that it is started again"
    assert "muster: the sampler is tried again" in output
    assert "began with run-" in sampler.log.read_text(), "a new server begins with the version that was served last"
    differences = logged(output, "sampling/sampling_logp_difference/mean")
    assert len(differences) == STEPS
    assert max(differences) < EXACT


def test_a_training_is_seen_while_it_runs_and_afterwards(said, sampler, train):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    process, message = train(STEPS, MUSTER_METRICS_PORT=str(port), MUSTER_EXPECTED_WORLD_SIZE="1")
    output = ""
    while len(logged(output, "reward")) < 3:
        line = process.stdout.readline()
        assert line, output[-3000:]
        output += line
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    seen = {name: float(value) for name, value in (each.split() for each in lines if each.startswith("muster_"))}
    output += process.communicate(timeout=READY)[0]

    assert process.returncode == 0, output[-3000:]
    assert seen["muster_training_step"] >= 3
    assert 0 <= seen["muster_training_reward"] <= 1
    assert seen["muster_training_sampling_logp_difference"] < EXACT
    assert abs(seen["muster_training_importance_ratio"] - 1) < EXACT
    assert seen["muster_training_tokens_per_second"] > 0
    assert seen["muster_training_weight_sync_seconds_count"] >= 3
    report = json.loads(message.read_text())["sampling"]
    assert report["syncs"] == STEPS
    assert report["reward"] == pytest.approx(logged(output, "reward")[-1], rel=1e-3)
    assert report["difference"] < EXACT
    assert 0 < report["syncSeconds"] < 60
    plot = (message.parent / "output" / "muster-training.svg").read_text()
    assert all(each in plot for each in ("Mean reward", "Mean difference", "Mean importance", "Sending", "Tokens"))


async def test_asynchronous_grpo_sends_whole_models_by_files_and_each_is_the_one_that_is_served(
    said, sampler, programs, models, place, tmp_path
):
    process = programs(
        PROGRAMS / "asynchronous.py", sampler.url, models / "untied", 12, tmp_path,
        wait=False, MUSTER_WEIGHTS_PATIENCE="1",
    )  # fmt: skip
    output = process.communicate(timeout=READY)[0]

    assert process.returncode == 0, output[-3000:]
    (found,) = [json.loads(line) for line in output.splitlines() if line.startswith('{"last"')]
    assert found["last"] < EXACT
    assert found["steps"] == 12
    assert len(found["reward"]) >= 12
    assert [each.name for each in (place / "shared").glob("run-*")] == ["run-foreign"]


async def test_a_training_whose_sampler_serves_other_weights_ends_with_a_reason(said, sampler, train, place):
    process, message = train(STEPS, MUSTER_WEIGHTS_BOUND="1e-9", MUSTER_WEIGHTS_PATIENCE="2")
    output = process.communicate(timeout=READY)[0]

    assert process.returncode == 78, output[-3000:]
    report, reason = message.read_text().splitlines()
    assert "the sampler serves other weights than are trained" in reason
    assert json.loads(report)["verdict"] == "weights-differ"
    assert len(logged(output, "reward")) <= 2
    assert [each.name for each in (place / "shared").glob("run-*")] == ["run-foreign"]
    assert sampler.get("/muster_weights")["holder"] is None


async def test_a_tied_model_on_a_cpu_is_refused_when_the_server_starts(start, models):
    server = start(models / "tied")
    await until(lambda: server.codes, limit=READY)
    assert server.codes[0] != 0
    server.close()
    assert "this model ties its embeddings" in server.message.read_text()
