"""Trainers as configuration: documents, the registry, and which runtime fits."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import subprocess
import sys
from typing import ClassVar

import pytest

import muster
from muster import config_trainers
from muster.strategies.frameworks.trl import flags
from tests.operations import pages


def runtime(name, framework=None, kind="ClusterTrainingRuntime"):
    labels = {"trainer.kubeflow.org/framework": framework} if framework else {}
    return {"kind": kind, "metadata": {"name": name, "labels": labels}, "spec": {}}


class Point:
    """An entry point, as importlib.metadata has them."""

    def __init__(self, name, found, value="other.trainers:Other"):
        self.name, self.value, self._found = name, value, found
        self.dist = type("Dist", (), {"name": "other", "version": "1.0"})

    def __lt__(self, other):
        return self.name < other.name

    def load(self):
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@dataclasses.dataclass(kw_only=True)
class Other(muster.ConfigTrainer):
    """A trainer of another distribution."""

    framework: ClassVar[str] = "other"
    command: ClassVar[tuple[str, ...]] = ("other",)

    def to_args(self):
        return ["--fast"]


@pytest.fixture
def installed(monkeypatch):
    def install(*points):
        monkeypatch.setattr(
            importlib.metadata, "entry_points", lambda group: points if group == "muster.backends" else ()
        )

    return install


def test_a_trainer_becomes_a_plain_trainjob():
    trainer = muster.TRLTrainer(
        method="dpo",
        model="m",
        dataset="d",
        num_nodes=2,
        num_proc_per_node=1,
        resources_per_node={"GPU": 1, "Memory": "4Gi", "example.com/NPU": 1, "mig-1g.5gb": 1},
        env={"A": "b"},
        arguments={"beta": 0.1},
    )
    document = trainer.to_trainjob("job", runtime=runtime("r", "trl", "TrainingRuntime"), namespace="team")
    quantities = {"nvidia.com/gpu": "1", "memory": "4Gi", "example.com/NPU": "1", "nvidia.com/mig-1g.5gb": "1"}
    assert document == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {
            "runtimeRef": {"name": "r", "kind": "TrainingRuntime"},
            "trainer": {
                "command": ["torchrun", "-m"],
                "args": [
                    "trl.scripts.dpo",
                    "--model_name_or_path=m",
                    "--dataset_name=d",
                    "--output_dir=/workspace/output",
                    "--beta=0.1",
                ],
                "numNodes": 2,
                "numProcPerNode": 1,
                "resourcesPerNode": {"requests": quantities, "limits": quantities},
                "env": [{"name": "A", "value": "b"}],
            },
        },
    }


def test_needs_become_the_label_and_annotations_that_the_webhook_reads():
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    trainer = muster.TRLTrainer(model="m", role="sampler", claim_profile="seat", resource_claims=claims)
    metadata = trainer.to_trainjob("job", runtime="r")["metadata"]
    assert metadata["labels"] == {"muster.dev/role": "sampler"}
    assert metadata["annotations"]["muster.dev/claim-profile"] == "seat"
    assert json.loads(metadata["annotations"]["muster.dev/resource-claims"]) == claims


@pytest.mark.parametrize(
    "group", [muster.LoRA, muster.Quantization, muster.Precision, muster.Logging, muster.VLLMSampling]
)
def test_each_field_of_a_group_is_a_flag_of_some_method_and_has_its_choices(group):
    for field in (each for each in dataclasses.fields(group) if each.metadata):
        found = [flags.spec(method, f"--{field.metadata['flag']}") for method in flags.methods()]
        spec = next(each for each in found if each is not None)
        assert all(choice in field.type for choice in spec.choices)
        words = {"bool": "bool", "int": "int", "float": "float"}
        assert words.get(spec.kind.partition("|")[0], "") in field.type


def test_each_own_field_of_trl_is_a_flag_of_every_method():
    own = [each.metadata["flag"] for each in dataclasses.fields(muster.TRLTrainer) if "flag" in each.metadata]
    assert "max_steps" in own
    for flag in own:
        assert all(flags.spec(method, f"--{flag}") for method in flags.methods())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"packing": True}, ["--packing=True"]),
        ({"chat_template_kwargs": {"a": 1}}, ['--chat_template_kwargs={"a": 1}']),
        ({"lora_target_modules": ["a", "b"]}, ["--lora_target_modules", "a", "b"]),
        ({"seed": None}, []),
    ],
)
def test_further_arguments_are_spelt_as_trl_reads_them(given, words):
    assert muster.TRLTrainer(model="m", arguments=given).to_args()[3:] == words


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arguments": {"seed": 1}, "seed": 2}, r"arguments\['seed'\]: --seed is set by seed already"),
        ({"arguments": {"lora-r": 1}, "lora": muster.LoRA(r=1)}, r"arguments\['lora-r'\]: --lora_r is set by lora.r"),
        ({"arguments": {"report_to": []}}, "an empty list has no spelling"),
        ({"arguments": {"report_to": ["--x"]}}, "'--x' would be read as a flag"),
        ({"run_name": "a\0b"}, "null character"),
        ({"method": "ppo"}, "trl has no training method 'ppo'; its methods are distillation, dpo"),
    ],
)
def test_what_no_command_line_can_hold_is_an_error_that_names_the_field(given, message):
    if "run_name" in given:
        given = {"logging": muster.Logging(**given)}
    with pytest.raises(ValueError, match=message):
        muster.TRLTrainer(model="m", **given).to_trainjob("x", runtime="r")


def test_torchtune_gets_the_arguments_that_the_sdk_makes():
    trainer = muster.TorchTuneConfig(
        dtype="bf16",
        batch_size=2,
        epochs=3,
        loss="torchtune.modules.loss.CEWithChunkedOutputLoss",
        peft_config=muster.LoraConfig(lora_rank=8, lora_alpha=16, use_dora=True),
        dataset_preprocess_config=muster.TorchTuneInstructDataset(
            source="json", split="train", train_on_input=False, new_system_prompt="p", column_map={"input": "i"}
        ),
    )
    # Printed by kubeflow 0.5.0's get_args_using_torchtune_config for the same values.
    assert trainer.to_args() == [
        "dtype=bf16",
        "batch_size=2",
        "epochs=3",
        "loss=torchtune.modules.loss.CEWithChunkedOutputLoss",
        "model.lora_rank=8",
        "model.lora_alpha=16",
        "model.use_dora=True",
        "model.lora_attn_modules=[q_proj,v_proj,output_proj]",
        "dataset=torchtune.datasets.instruct_dataset",
        "dataset.source=json",
        "dataset.split=train",
        "dataset.train_on_input=False",
        "dataset.new_system_prompt=p",
        "dataset.column_map={'input': 'i'}",
    ]


def test_a_trainer_of_another_distribution_is_found_by_its_framework(installed):
    installed(Point("other", Other))
    assert muster.get_backend("other") is Other
    assert set(muster.get_registered_backends()) == {"other", "torchtune", "trl"}


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (
            Point("trl", Other),
            "framework 'trl' has two trainers: muster.trl.TRLConfig and .*Other; uninstall or rename one",
        ),
        (
            Point("x", ImportError("no torch")),
            r"entry point x = other.trainers:Other of other 1.0 cannot be loaded: ImportError: no",
        ),
        (Point("x", dict), "is not a subclass of FrameworkConfig"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named(installed, point, message):
    installed(point)
    with pytest.raises(muster.BackendError, match=message):
        muster.get_registered_backends()


@pytest.fixture
def registry(monkeypatch):
    """The registry, which is as before after the test."""
    monkeypatch.setattr(config_trainers, "_registered", dict(muster.get_registered_backends()))


def test_the_last_config_of_a_framework_wins_under_both_names_of_the_decorator(registry):
    assert muster.get_framework("other") is None
    assert muster.register_framework(Other) is Other
    assert muster.get_framework("other") is muster.get_backend("other") is Other
    muster.register_backend("trl")(Other)
    assert muster.get_framework("trl") is Other
    muster.register_framework(muster.TRLConfig)
    assert muster.get_framework("trl") is muster.TRLConfig


@pytest.mark.parametrize("missing", ["framework", "command"])
def test_a_config_that_declares_no_framework_or_no_command_is_not_registered(missing):
    given = {"framework": "x", "command": ("y",)} | {missing: muster.FrameworkConfig.__dict__[missing]}
    with pytest.raises(ValueError, match="Bare must declare a framework and a command"):
        muster.register_framework(type("Bare", (Other,), given))


def test_the_configs_of_this_package_are_known_before_anybody_asked_for_one():
    code = "import muster; print(*sorted(muster.get_registered_backends()), muster.get_framework('trl').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["torchtune", "trl", "TRLConfig"]


GRPO = muster.TRLGRPOConfig(beta=0.04, num_generations=8, reward_funcs=["think_format_reward", "accuracy_reward"])


def test_a_config_is_written_as_its_proposal_has_it():
    """The second and third user story of KEP-2839 (trainer#3930)."""
    config = muster.TRLConfig(
        method=GRPO, model_name_or_path="Qwen/Qwen2.5-0.5B", dataset_name="trl-lib/tldr", learning_rate=1e-6
    )
    assert config.command == ("torchrun", "-m")
    assert config.to_args() == [
        "trl.scripts.grpo",
        "--model_name_or_path=Qwen/Qwen2.5-0.5B",
        "--dataset_name=trl-lib/tldr",
        "--output_dir=/workspace/output",
        "--learning_rate=1e-06",
        "--beta=0.04",
        "--num_generations=8",
        "--reward_funcs",
        "think_format_reward",
        "accuracy_reward",
    ]
    assert config.validate() == []
    tuned = muster.TRLConfig(
        method=muster.TRLSFTConfig(packing=True),
        model_name_or_path="m",
        dataset_name="d",
        use_peft=True,
        lora_r=8,
        lora_target_modules=["q_proj"],
        bf16=False,
    )
    assert "--packing=True" in tuned.to_args()
    assert "--use_peft=True" in tuned.to_args()


@pytest.mark.parametrize("config", [muster.TRLSFTConfig, muster.TRLDPOConfig, muster.TRLGRPOConfig])
def test_each_field_of_a_method_is_a_flag_of_its_script(config):
    assert all(flags.spec(config.module, f"--{each.name}") for each in dataclasses.fields(config))


def test_a_parameter_of_another_method_is_an_error_where_it_is_written():
    with pytest.raises(TypeError, match="num_generations"):
        muster.TRLSFTConfig(num_generations=8)


def test_a_model_is_needed_and_each_flag_is_set_once():
    with pytest.raises(TypeError, match="model_name_or_path: is required"):
        muster.TRLConfig(dataset_name="d")
    twice = muster.TRLConfig(method=GRPO, model="m", arguments={"beta": 1})
    with pytest.raises(ValueError, match=r"arguments\['beta'\]: --beta is set by method.beta already"):
        twice.to_args()
    with pytest.raises(ValueError, match="model: --model_name_or_path is set by model_name_or_path already"):
        muster.TRLConfig(model="m", model_name_or_path="m").to_args()


def test_a_finding_names_the_field_of_the_method():
    few = muster.TRLConfig(method=muster.TRLGRPOConfig(num_generations=1, reward_funcs=["r.f"]), model="m", dataset="d")
    with pytest.raises(muster.TrainerError, match=r"method\.num_generations: is less than the 2 that TRL needs"):
        few.validate()


def test_a_method_of_another_package_may_render_itself():
    class KTO(muster.TRLMethodConfig):
        module = "kto"

        def to_args(self):
            return ["--beta=0.2"]

    config = muster.TRLConfig(method=KTO(), model="m")
    assert config.to_args() == [
        "trl.scripts.kto",
        "--model_name_or_path=m",
        "--output_dir=/workspace/output",
        "--beta=0.2",
    ]
    assert config.origin(0) == config.origin(3) == "method"


def test_an_unknown_framework_lists_those_that_there_are():
    with pytest.raises(
        muster.BackendError, match="no trainer is registered for framework 'jax'; there are torchtune, trl"
    ):
        muster.get_backend("jax")


def test_the_one_runtime_of_a_framework_is_chosen():
    given = [runtime("a", "trl"), runtime("b", "torch"), runtime("c")]
    assert muster.choose_runtime(given, "trl")["metadata"]["name"] == "a"


def test_of_two_runtimes_of_one_name_the_namespaced_one_is_chosen():
    given = [runtime("a", "trl", "TrainingRuntime"), runtime("a", "trl")]
    assert muster.choose_runtime(given, "trl")["kind"] == "TrainingRuntime"


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        ([], None, "no runtime has the label trainer.kubeflow.org/framework: trl; there are no runtimes at all"),
        ([runtime("b", "torch"), runtime("c")], None, r"there are b \(torch\), c \(no framework label\)"),
        ([runtime("a", "trl"), runtime("b", "trl")], None, "2 runtimes are for trl: a, b; choose one by its name"),
        ([runtime("b", "torch")], "b", "runtime 'b' is for torch, and this trainer is for trl"),
        ([runtime("b")], "b", "runtime 'b' lacks the label"),
        ([runtime("b", "torch")], "x", r"there is no runtime 'x'; there are b \(torch\)"),
    ],
)
def test_no_several_or_wrong_runtimes_are_an_error_that_lists_them(given, name, message):
    with pytest.raises(muster.RuntimeChoiceError, match=message):
        muster.choose_runtime(given, "trl", name)


def test_a_job_for_a_runtime_of_another_framework_is_not_written():
    with pytest.raises(muster.RuntimeChoiceError, match="is for torch"):
        muster.TRLTrainer(model="m").to_trainjob("x", runtime=runtime("b", "torch"))


def test_the_shortest_trainer_of_ones_own_is_judged_like_the_others():
    assert Other(num_nodes=2).validate() == []
    with pytest.raises(muster.TrainerError, match=r"spec\.trainer\.numNodes: must be at least 1"):
        Other(num_nodes=0).validate()


def test_the_old_names_are_the_same_classes():
    assert muster.LLMTrainer is muster.ConfigTrainer is muster.FrameworkConfig
    assert muster.TorchTuneTrainer is muster.TorchTuneConfig
    assert muster.TRLTrainer is muster.TRLConfig


def test_importing_it_imports_nothing_heavy():
    heavy = [
        "torch",
        "aiohttp",
        "kubernetes",
        "pydantic",
        "cryptography",
        "yaml",
        "prometheus_client",
        "transformers",
        "kubeflow",
        "urllib3",
        "orjson",
        "matplotlib",
    ]
    code = f"import sys, muster, muster.kubeflow; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("heading", ["Describe, check, write", "A trainer for another framework"])
def test_the_page_about_trainers_shows_code_that_runs(heading):
    block = pages.section("docs/python.md", heading).split("```python\n")[1].partition("```")[0]
    namespace = {"__name__": __name__}  # dataclasses look their module up
    exec(block, namespace)  # noqa: S102  # the page of this repository
    if "document" in namespace:
        assert namespace["document"]["kind"] == "TrainJob"
    else:
        assert namespace["AxolotlConfig"](config="a.yml").to_args()[0] == "a.yml"


def test_without_a_runtime_nothing_is_said_of_a_model_that_the_runtime_chooses():
    assert muster.TorchTuneTrainer(batch_size=4).validate() == []
