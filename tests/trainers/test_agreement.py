"""The webhook admits, unchanged, what the client accepts; it refuses what the client refuses, with the same findings.

The client judges with a runtime that sets nothing; the webhook with the runtimes that Muster ships.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import muster
from muster.strategies.documents.findings import Severity
from muster.strategies.frameworks.trl import flags
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader

RUNTIMES = [
    yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "manifests/runtimes").glob("t*.yaml"))
]
TUNED = [each for each in RUNTIMES if muster.framework_of(each) == "torchtune"]
CLUSTER = InMemoryReader(RUNTIMES)
POLICY = Policy()

TEXT = st.sampled_from(["m", "org/model", "/workspace/x", "a b", "-1", "$(MODEL)", "ü", "--seed", "none", ""])
NUMBER = st.sampled_from([0, 1, 2, 16, -1, 10**20])
FLOAT = st.sampled_from([0.0, 0.5, 2e-5, -1.0, float("inf")])
TRUTH = st.none() | st.booleans()
METHODS = sorted(flags.methods())


def optional(strategy):
    """Draw None three times out of four, so that some configurations are right."""
    return st.sampled_from([False, False, False, True]).flatmap(lambda given: strategy if given else st.none())


def group(cls, **members):
    return optional(st.builds(cls, **members))


ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            "packing",
            "max_length",
            "beta",
            "loss_type",
            "packin",
            "sead",
            "reward_funcs",
            "eval_strategy",
            "num_machines",
            "dataset_num_proc",
            "optim",
            "fsdp",
            "ddp_backend",
            "num_generations",
            "teacher_model_name_or_path",
            "warmup_steps",
        ]
    ),
    TEXT
    | NUMBER
    | FLOAT
    | st.booleans()
    | st.lists(st.sampled_from(["a", "accuracy_reward", "b c"]), min_size=1, max_size=3),
    max_size=3,
)
NEEDS = {
    "num_nodes": optional(st.sampled_from([0, 1, 2, 3])),
    "num_proc_per_node": optional(st.sampled_from([0, 1, 2, 4])),
    "resources_per_node": optional(
        st.sampled_from(
            [{"gpu": 1}, {"gpu": 4, "memory": "64Gi"}, {"cpu": 4}, {"gpu": "x"}, {"mig-1g.5gb": 2}, {"gpu": 0}]
        )
    ),
    "env": st.sampled_from([{}, {"HF_HOME": "/x"}, {"PET_NNODES": "2"}, {"MASTER_PORT": "1"}]),
}
TRL = st.builds(
    muster.TRLTrainer,
    method=st.sampled_from(METHODS),
    model=TEXT,
    dataset=st.just("d") | TEXT | st.none(),
    learning_rate=optional(FLOAT),
    max_steps=optional(NUMBER),
    gradient_checkpointing=TRUTH,
    use_cpu=TRUTH,
    lora=group(
        muster.LoRA,
        r=optional(NUMBER),
        dropout=optional(FLOAT),
        target_modules=optional(st.lists(st.sampled_from(["q_proj", "v_proj"]), min_size=1)),
        dora=TRUTH,
    ),
    quantization=group(muster.Quantization, bits=st.sampled_from([4, 8]), nested=TRUTH),
    precision=group(muster.Precision, bf16=TRUTH, fp16=TRUTH),
    logging=group(muster.Logging, report_to=optional(TEXT), steps=optional(FLOAT), completions=TRUTH),
    vllm=group(
        muster.VLLMSampling,
        mode=st.sampled_from(["colocate", "server"]),
        server_base_url=optional(st.just("http://vllm:8000")),
        gpu_memory_utilization=optional(FLOAT),
    ),
    arguments=st.just({}) | ARGUMENTS,
    **NEEDS,
)
TORCHTUNE_FIELDS = {
    "dtype": optional(st.sampled_from(["bf16", "fp32"])),
    "batch_size": optional(NUMBER),
    "epochs": optional(NUMBER),
    "peft_config": group(
        muster.LoraConfig, lora_rank=optional(NUMBER), quantize_base=TRUTH, lora_dropout=optional(FLOAT)
    ),
    "dataset_preprocess_config": group(
        muster.TorchTuneInstructDataset, source=optional(st.just("json")), split=optional(st.just("train[:10%]"))
    ),
    "arguments": optional(
        st.dictionaries(
            st.sampled_from(["optimizer.lr", "output_dir", "tokenizer.path", "seed"]), NUMBER | TEXT, max_size=2
        )
    ),
}
TORCHTUNE = st.builds(muster.TorchTuneTrainer, **TORCHTUNE_FIELDS, **NEEDS)


def webhook(document, *, phase, kind="TrainJob"):
    request = reviews.Request(
        phase, "1", "CREATE", kind, "default", "x", document, None, False, "bob", (), group="trainer.kubeflow.org"
    )
    decision = decisions.evaluate(request, CLUSTER, POLICY)
    assert decision.message == ""
    return decision


def answer(document):
    """Return the stored document, and the findings of both phases."""
    mutated = webhook(document, phase="mutate")
    validated = webhook(mutated.document, phase="validate")
    return mutated.document, validated.allowed, {each.identity for each in (*mutated.findings, *validated.findings)}


def judged(trainer, runtime=None):
    """Return whether the client accepts, and what it says; None for values that no command line can hold."""
    try:
        return True, {each.identity for each in trainer.validate(runtime)}
    except muster.TrainerError as error:
        return False, {each.identity for each in error.findings}
    except ValueError:
        return None, set()


@settings(max_examples=100)
@given(TRL)
def test_client_and_webhook_agree_about_every_configuration_of_trl(trainer):
    agree(trainer)


@pytest.mark.thorough
@settings(max_examples=5000)
@given(TRL)
def test_client_and_webhook_agree_about_thousands_of_configurations_of_trl(trainer):
    agree(trainer)


def agree(trainer):
    accepted, said = judged(trainer)
    if accepted is None:
        return
    document = trainer.to_trainjob("x", runtime="trl-distributed")
    stored, admitted, found = answer(document)
    assert (accepted, said) == (admitted, found)
    if accepted:
        assert stored["spec"] == document["spec"]


@pytest.mark.parametrize(
    "runtime",
    [each for each in RUNTIMES if muster.framework_of(each) == "torchtune"],
    ids=lambda each: each["metadata"]["name"],
)
@settings(max_examples=100)
@given(trainer=TORCHTUNE)
def test_client_and_webhook_agree_about_every_configuration_of_torchtune(runtime, trainer):
    accepted, said = judged(trainer, runtime)
    if accepted is None:
        return
    document = trainer.to_trainjob("x", runtime=runtime)
    stored, admitted, found = answer(document)
    assert (accepted, said) == (admitted, found)
    if accepted:
        assert stored["spec"]["trainer"]["args"] == document["spec"]["trainer"]["args"]


@settings(max_examples=50)
@given(trainer=st.builds(muster.TorchTuneTrainer, **TORCHTUNE_FIELDS))
def test_without_a_runtime_no_parameter_is_refused_that_some_runtime_would_take(trainer):
    if any(judged(trainer, runtime)[0] for runtime in TUNED):
        assert judged(trainer)[0]


def test_the_drawn_configurations_are_accepted_and_refused():
    drawn = []

    @settings(max_examples=200, database=None, derandomize=True)
    @given(TRL)
    def draw(trainer):
        drawn.append(judged(trainer)[0])

    draw()
    assert min(drawn.count(True), drawn.count(False)) > 20


def test_an_error_names_the_field_that_its_argument_comes_from():
    trainer = muster.TRLTrainer(
        model="m", dataset="d", lora=muster.LoRA(r=1, target_modules=["a"]), arguments={"sead": 1}
    )
    with pytest.raises(
        muster.TrainerError, match=r"arguments\['sead'\]: is not a flag of trl sft .* did you mean --seed"
    ):
        trainer.validate()


def test_warnings_are_returned():
    trainer = muster.TRLTrainer(model="m", dataset="d", num_nodes=2, resources_per_node={"cpu": 1})
    assert [(each.severity, each.rule) for each in trainer.validate()] == [(Severity.WARNING, "trl/cpu")]
