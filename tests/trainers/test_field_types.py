"""Fields of another type than their annotations: each is told by its name, all of them at once, and how to write it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import pytest

import muster

if TYPE_CHECKING:
    from somewhere import Something

TRL = {"model": "m", "dataset": "d"}
FAULTS = [
    (muster.TRLTrainer, {"lora": {"r": 16}}, "lora: must be a LoRA, and not a dict; write LoRA(r=16)"),
    (
        muster.TRLTrainer,
        {"precision": "bf16"},
        "precision: must be a Precision, and not 'bf16'; write Precision(bf16=True)",
    ),
    (
        muster.TRLTrainer,
        {"quantization": 4},
        "quantization: must be a Quantization, and not 4; write Quantization(bits=...)",
    ),
    (muster.TRLTrainer, {"resources_per_node": 8}, "must be a dictionary, and not 8; write it like {'gpu': 4}"),
    (
        muster.TRLTrainer,
        {"resources_per_node": {"gpu": 1.5}},
        "resources_per_node['gpu']: must be an integer or a string",
    ),
    (muster.TRLTrainer, {"env": ["A"]}, "env: must be a dictionary, and not a list; write it like {'NAME': 'value'}"),
    (muster.TRLTrainer, {"env": {"A": 1}}, "env['A']: must be a string, and not 1; write '1'"),
    (muster.TRLTrainer, {"env": {1: "A"}}, "env key 1: must be a string, and not 1; write '1'"),
    (muster.TRLTrainer, {"arguments": ["x"]}, "arguments: must be a dictionary, and not a list"),
    (muster.TRLTrainer, {"arguments": {"--beta": 0.1}}, "write the name alone, 'beta'"),
    (muster.TRLTrainer, {"num_nodes": "2"}, "num_nodes: must be an integer, and not '2'; write 2"),
    (muster.TRLTrainer, {"num_nodes": True}, "num_nodes: must be an integer, and not True"),
    (muster.TRLTrainer, {"role": "samplr"}, "role: must be 'trainer' or 'sampler', and not 'samplr'"),
    (muster.TRLTrainer, {"claim_profile": 3}, "claim_profile: must be a string, and not 3"),
    (muster.TRLTrainer, {"resource_claims": "x"}, "resource_claims: must be a list, and not 'x' (core/shape)"),
    (muster.TRLTrainer, {"use_cpu": "True"}, "use_cpu: must be True or False, and not 'True'; write True"),
    (muster.TRLTrainer, {"learning_rate": "1e-5"}, "learning_rate: must be a number, and not '1e-5'; write 1e-05"),
    (muster.TRLTrainer, {"model": 7}, "model: must be a string, and not 7"),
    (
        muster.TRLTrainer,
        {"lora": muster.LoRA(target_modules="q_proj, v_proj")},
        "or 'all-linear', and not 'q_proj, v_proj'; write ['q_proj', 'v_proj']",
    ),
    (
        muster.TRLTrainer,
        {"quantization": muster.Quantization(bits="4")},
        "quantization.bits: must be 4 or 8, and not '4'",
    ),
    (muster.TorchTuneTrainer, {"batch_size": "four"}, "batch_size: must be an integer, and not 'four'"),
    (muster.TorchTuneTrainer, {"epochs": 2.5}, "epochs: must be an integer, and not 2.5"),
    (muster.TorchTuneTrainer, {"peft_config": {"lora_rank": 8}}, "peft_config: must be a LoraConfig, and not a dict"),
    (
        muster.TorchTuneTrainer,
        {"peft_config": muster.LoraConfig(lora_attn_modules="q_proj")},
        "peft_config.lora_attn_modules: must be a list of strings, and not 'q_proj'; write ['q_proj']",
    ),
]


def built(cls, given):
    return cls(**(TRL if cls is muster.TRLTrainer else {}) | given)


@pytest.mark.parametrize(
    ("cls", "given", "message"), FAULTS, ids=[f"{next(iter(each[1]))}-{n}" for n, each in enumerate(FAULTS)]
)
def test_a_field_of_another_type_is_told_with_its_name_and_how_to_write_it(cls, given, message):
    for use in (
        lambda trainer: trainer.validate(),
        lambda trainer: trainer.to_trainjob("job", runtime="r"),
        lambda trainer: trainer.to_kubeflow(None),
    ):
        with pytest.raises(muster.TrainerError) as told:
            use(built(cls, given))
        assert message in str(told.value)


def test_all_fields_of_another_type_are_told_at_once():
    trainer = muster.TRLTrainer(
        **TRL, num_nodes="2", lora=muster.LoRA(r="16", dropout="much"), role="samplr", arguments={"-x": 1, "y": {1}}
    )
    with pytest.raises(muster.TrainerError) as told:
        trainer.validate()
    assert [each.field for each in told.value.findings] == [
        "num_nodes",
        "role",
        "lora.r",
        "lora.dropout",
        "arguments['y']",
        "arguments['-x']",
    ]


def test_what_annotations_allow_is_taken():
    muster.TRLTrainer(
        **TRL,
        learning_rate=1,
        lora=muster.LoRA(target_modules="all-linear", modules_to_save=("a", "b")),
        arguments={"packing": True, "x": None, "y": ["a", "b"], "z": {"a": object()}},
        resource_claims=[{"name": "a"}],
    ).check_types()
    muster.TorchTuneTrainer(arguments={"a": None, "b": 1.5}).check_types()


def test_a_class_of_the_sdk_with_the_same_fields_is_taken_and_judged():
    made = dataclasses.make_dataclass("LoraConfig", [each.name for each in dataclasses.fields(muster.LoraConfig)])
    theirs = made(**dataclasses.asdict(muster.LoraConfig(lora_rank=8)))
    muster.TorchTuneTrainer(peft_config=theirs).check_types()
    with pytest.raises(muster.TrainerError, match=r"peft_config\.lora_rank: must be an integer"):
        muster.TorchTuneTrainer(peft_config=dataclasses.replace(theirs, lora_rank="8")).check_types()


class Shape(Protocol):
    """Has no check at run time."""


@dataclasses.dataclass(kw_only=True)
class Foreign(muster.ConfigTrainer):
    """A trainer of another author, with annotations that only a type checker can resolve."""

    framework: ClassVar[str] = "foreign"
    command: ClassVar[tuple[str, ...]] = ("foreign",)
    some: Something | None = None

    def to_args(self):
        return []


@dataclasses.dataclass(kw_only=True)
class Shaped(muster.ConfigTrainer):
    """A trainer of another author, with a type that nothing is an instance of."""

    framework: ClassVar[str] = "shaped"
    command: ClassVar[tuple[str, ...]] = ("shaped",)
    some: Sequence[Shape] | None = None

    def to_args(self):
        return []


def test_an_annotation_that_cannot_be_judged_takes_everything():
    Foreign(some=3).check_types()
    Shaped(some=[3]).check_types()
    with pytest.raises(muster.TrainerError, match="num_nodes: must be an integer, and not '2'; write 2"):
        Foreign(some=3, num_nodes="2").check_types()


@pytest.mark.parametrize("runtime", ["trl-distributed", 3, {}, {"metadata": {}}])
def test_what_is_no_document_of_a_runtime_is_refused_as_that(runtime):
    with pytest.raises(muster.RuntimeChoiceError, match="must be the document of a runtime"):
        muster.TRLTrainer(**TRL).validate(runtime)
