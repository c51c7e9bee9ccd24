"""What the sampler on vLLM answers: against the trainer and the sampler on transformers, on a CPU in float32.

vLLM runs once, in an environment of its own; all that it is asked is in `answers`, and each test looks at some of it.
"""

import os
import pickle
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muster.sessions.demo import tiny
from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.tickets import answered
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Datum, Lora, Sampling, Step
from tests.sessions.engines import drawn

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[3]
CONTEXT = 512
ADAPTERS = {"one": Lora(rank=4, seed=0), "two": Lora(rank=8, seed=1, train_mlp=False), "wide": Lora(rank=9, seed=2)}


def _prompt(seed, length):
    return np.random.default_rng(seed).integers(4, drawn.VOCABULARY, length)


def _plain(weights, seed, length, **rest):
    return Sampling(weights, _prompt(seed, length), seed=seed, **{"stop": [], "max_tokens": 12} | rest)


MIXED = [
    _plain(weights, seed, length, count=2, **rest)
    for seed, (weights, length, rest) in enumerate(
        [
            ("one", 7, {}),
            (None, 150, {"prompt_logprobs": True}),
            ("two", 150, {"temperature": 0.3, "topk_sampled": 3}),
            ("one", 150, {"prompt_logprobs": True, "topk_prompt": 4}),
            (None, 1, {"temperature": 0.0, "prompt_logprobs": True}),
            ("two", 30, {"top_k": 3, "top_p": 0.7}),
            ("two", 31, {"prompt_logprobs": True, "last_n": 5}),
        ]
    )
]
TARGETS = replace(
    _plain("one", 40, 5, count=0), targets=np.array([[7, -1], [8, 9], [-1, -1], [10, 11]]), prompt_logprobs=True
)
LONG = _plain("one", 50, 20, max_tokens=60)
ENDS = [
    LONG,
    replace(LONG, stop=None),
    _plain("two", 51, CONTEXT - 4, max_tokens=None),
    _plain(None, 52, CONTEXT, max_tokens=None, count=2, prompt_logprobs=True),
]
REFUSED = [
    replace(LONG, weights="gone"),
    replace(LONG, temperature=0.005),
    replace(LONG, temperature=2.5),
    replace(LONG, max_tokens=CONTEXT),
    replace(LONG, stop=["x"] * 65),
]
NEIGHBOURS = [replace(LONG, seed=seed, count=3) for seed in (1, 2)]
UNSEEDED = [replace(LONG, seed=None), replace(LONG, seed=None)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def base(folder):
    """The heads are 64 wide, as vLLM's kernels for CPUs require."""
    return tiny.make(folder / "tiny", hidden=256, context=CONTEXT)


@pytest.fixture(scope="module")
def trainer(base, folder):
    made = TorchTrainer(base)
    for number, (name, lora) in enumerate(ADAPTERS.items()):
        made.create(name, lora)
        for seed in range(3):
            made.step(name, drawn.step(seed + 10 * number))
            made.optim(name, Adam(learning_rate=1e-2))
        made.save(name, folder / name, optimizer=False)
    return made


@pytest.fixture(scope="module")
def ours(base, trainer, folder):
    made = TransformersSampler(base)
    for name in ADAPTERS:
        made.load(name, folder / name)
    return made


@pytest.fixture(scope="module")
def texts(ours):
    """The request whose text is stopped, and that text."""
    (free,) = answered(ours, [LONG])
    return replace(LONG, stop=[ours._tokenizer.decode(free.sequences[0].tokens[4:7])]), free


@pytest.fixture(scope="module")
def answers(base, trainer, folder, texts, packages):
    """What vLLM answered, by the name of each action."""
    python = shutil.which(os.environ.get("MUSTER_VLLM_PYTHON", ""))
    if python is None:
        pytest.fail("MUSTER_VLLM_PYTHON must name a python that has vllm installed; `make sessions` does")
    torn = shutil.copytree(folder / "one", folder / "torn")
    (torn / "adapter_model.safetensors").write_bytes(b"torn")
    actions = {
        "empty": ("sample", []),
        "load one": ("load", "one", folder / "one"),
        "load two": ("load", "two", folder / "two"),
        "mixed": ("sample", MIXED),
        "again": ("sample", MIXED),
        "alone": ("sample", MIXED[:1]),
        "targets": ("sample", [TARGETS]),
        "ends": ("sample", ENDS),
        "refused": ("sample", [LONG, *REFUSED, LONG]),
        "text": ("sample", [texts[0]]),
        "token": ("sample", [replace(LONG, stop=[int(texts[1].sequences[0].tokens[5])])]),
        "neighbours": ("sample", NEIGHBOURS),
        "unseeded": ("sample", UNSEEDED),
        "came": ("came", [(0, LONG), (3, replace(MIXED[5], max_tokens=2))]),
        "too many": ("load", "three", folder / "one"),
        "too wide": ("load", "two", folder / "wide"),
        "torn": ("load", "two", torn),
        "kept": ("sample", MIXED[2:3]),
        "replace two": ("load", "two", folder / "one"),
        "replaced": ("sample", [replace(MIXED[2], weights="two"), replace(MIXED[2], weights="one"), MIXED[1]]),
        "unload": ("unload", "two"),
        "unload again": ("unload", "two"),
        "unloaded": ("sample", [MIXED[2], MIXED[0], MIXED[1]]),
    }
    given, got = folder / "actions", folder / "answers"
    given.write_bytes(pickle.dumps(list(actions.values())))
    command = [python, "-m", "tests.sessions.vllm.program", str(base), str(given), str(got)]
    environment = os.environ | {"PYTHONPATH": packages}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(actions, pickle.loads(got.read_bytes()), strict=True))  # noqa: S301  # our own


def _scored(trainer, request, tokens):
    """Return what the trainer thinks of tokens; the base is an adapter that changes nothing."""
    name = request.weights or "zero"
    if name == "zero":
        trainer.create("zero", Lora(rank=1, seed=0))
    inputs = {"target_tokens": tokens[1:], "weights": np.zeros(len(tokens) - 1, np.float32)}
    return trainer.step(name, Step("cross_entropy", {}, [Datum(tokens[:-1], inputs)], forward_only=True)).logprobs[0]


def _agree(trainer, requests, answers):
    for request, answer in zip(requests, answers, strict=True):
        assert len(answer.sequences) == request.count
        for each in answer.sequences:
            tokens = np.concatenate([request.prompt, each.tokens])
            expected = _scored(trainer, request, tokens)[len(request.prompt) - 1 :]
            np.testing.assert_allclose(each.logprobs, expected, atol=1e-4)


def _same(one, other):
    assert [each.tokens.tolist() for each in one.sequences] == [each.tokens.tolist() for each in other.sequences]
    for a, b in zip(one.sequences, other.sequences, strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-4)


def test_sampled_logprobs_are_those_of_the_untempered_trainer_for_base_and_adapters_beside_each_other(trainer, answers):
    _agree(trainer, MIXED, answers["mixed"])


def test_prompts_are_scored_as_by_the_trainer_beside_prompts_of_other_adapters(trainer, answers):
    for request, answer in zip(MIXED, answers["mixed"], strict=True):
        if request.prompt_logprobs:
            first = 1 if request.last_n is None else len(request.prompt) - request.last_n
            assert np.isnan(answer.prompt_logprobs[:first]).all()
            if len(request.prompt) > 1:
                expected = _scored(trainer, request, request.prompt)
                np.testing.assert_allclose(answer.prompt_logprobs[first:], expected[first - 1 :], atol=1e-4)
        else:
            assert answer.prompt_logprobs is None


def test_alternatives_are_those_of_the_sampler_on_transformers(ours, answers):
    for place in (2, 3):
        (expected,) = answered(ours, [replace(MIXED[place], temperature=0.0)])
        answer = answers["mixed"][place]
        if place == 3:
            np.testing.assert_array_equal(answer.topk_prompt[0], expected.topk_prompt[0])
            np.testing.assert_allclose(answer.topk_prompt[1], expected.topk_prompt[1], atol=1e-4)
    for each in answers["mixed"][2].sequences:
        assert each.topk[0].shape == each.topk[1].shape == (12, 3)
        assert (np.diff(each.topk[1]) <= 0).all()
        assert (each.topk[1][:, 0] >= each.logprobs - 1e-6).all()


def test_targets_of_a_prompt_are_scored(ours, answers):
    (expected,) = answered(ours, [TARGETS])
    (answer,) = answers["targets"]
    np.testing.assert_allclose(answer.targets, expected.targets, atol=1e-4)
    np.testing.assert_allclose(answer.prompt_logprobs[1:], expected.prompt_logprobs[1:], atol=1e-4)


def test_greedy_tokens_are_those_of_the_sampler_on_transformers(ours, answers):
    (expected,) = answered(ours, [MIXED[4]])
    _same(answers["mixed"][4], expected)


def test_seeds_hold_alone_and_in_a_crowd_and_neighbouring_seeds_share_nothing(answers):
    for one, other in zip(answers["mixed"], answers["again"], strict=True):
        _same(one, other)
    _same(answers["alone"][0], answers["mixed"][0])
    found = [each.tokens.tobytes() for answer in answers["neighbours"] for each in answer.sequences]
    assert len(set(found)) == 6
    assert answers["unseeded"][0].sequences[0].tokens.tolist() != answers["unseeded"][1].sequences[0].tokens.tolist()


def test_sequences_end_where_they_are_told_to(answers, texts, ours):
    free, default, filled, full = answers["ends"]
    assert (len(free.sequences[0].tokens), free.sequences[0].ended) == (60, "length")
    tokens = free.sequences[0].tokens.tolist()
    length = tokens.index(3) + 1 if 3 in tokens else 60
    assert default.sequences[0].tokens.tolist() == tokens[:length]
    assert (len(filled.sequences[0].tokens), filled.sequences[0].ended) == (4, "length")
    assert [len(each.tokens) for each in full.sequences] == [0, 0]
    assert len(full.prompt_logprobs) == CONTEXT
    for name, request in (("text", texts[0]), ("token", None)):
        (sequence,) = answers[name][0].sequences
        assert sequence.tokens.tolist() == tokens[: len(sequence.tokens)]
        if request is not None and request.stop[0] in ours._tokenizer.decode(tokens):
            assert request.stop[0] in ours._tokenizer.decode(sequence.tokens)
            assert sequence.ended == "stop"


def test_a_short_prompt_that_comes_later_ends_first(answers):
    assert [ticket for ticket, _ in answers["came"]] == [1, 0]
    _same(answers["came"][1][1], answers["ends"][0])


def test_what_vllm_cannot_honour_is_refused_in_its_place(answers):
    first, *refused, last = answers["refused"]
    _same(first, last)
    assert [str(each).partition(":")[0] for each in refused] == [
        "model_path",
        "sampling_params.temperature",
        "sampling_params.temperature",
        "sampling_params.max_tokens",
        "sampling_params.stop",
    ]


def test_weights_that_cannot_be_taken_leave_the_old_and_others_replace_them(trainer, answers):
    for name, text in (("too many", "all 2 slots are in use"), ("too wide", "rank 9"), ("torn", "torn")):
        assert isinstance(answers[name], Refused)
        assert text in str(answers[name])
    _same(answers["kept"][0], answers["mixed"][2])
    by_two, by_one, of_base = answers["replaced"]
    _same(by_two, by_one)
    _agree(trainer, [replace(MIXED[2], weights="one")], [by_two])
    _same(of_base, answers["mixed"][1])
    gone, one, of_base = answers["unloaded"]
    assert "is not loaded" in str(gone)
    _same(one, answers["mixed"][0])
    _same(of_base, answers["mixed"][1])
