"""vllm: words, lengths and variables of its env that no version, or not the supported one, takes."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.frameworks.vllm import model_shapes
from tests.frameworks.builders import enforce, found, gpus, jobset, replicated_job

OURS, THEIRS = "registry.example/muster-dev/vllm:0.1.0", "registry.example/them/vllm:1"
WARNING = Severity.WARNING


def told(line, image=OURS, env=()):
    """Rule, severity and message of what is said of a server, after Muster completed it."""
    own = {"name": "server", "image": image, "command": line.split(), "resources": gpus(0), "env": list(env)}
    document = enforce("vllm", jobset(replicated_job("server", own), framework="vllm")).document
    return [(each.rule, each.severity, each.message) for each in found("vllm", document)]


UNKNOWN = {
    "a misspelt quantization": ("--quantization fp88", "did you mean fp8?"),
    "a quantization of earlier versions": ("-q bitsandbytes", "of vLLM 0.8.5 to"),
    "a deprecated quantization": ("-q fbgemm_fp8", "--allow-deprecated-quantization"),
    "a misspelt reasoning parser": ("--reasoning-parser qwen33", "did you mean qwen3?"),
    "a misspelt parser of tool calls": ("--enable-auto-tool-choice --tool-call-parser hermess", "did you mean hermes?"),
    "a word like no other": ("-q zzz", "correct it"),
}


@pytest.mark.parametrize(("words", "said"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_word_that_the_supported_vllm_does_not_know_is_a_warning(words, said):
    ((rule, severity, message),) = told(f"vllm serve m {words}")
    assert (rule, severity) == ("vllm/value", WARNING)
    assert said in message


KNOWN = [
    "-q fp8",
    "-q None",
    "-q $(Q)",
    "-q fbgemm_fp8 --allow-deprecated-quantization",
    "-q zzz --config f.yaml",
    "--reasoning-parser mine --reasoning-parser-plugin mine.py",
    "--enable-auto-tool-choice --tool-call-parser mine --tool-parser-plugin mine.py",
    "--chat-template /templates/own.jinja",
]


@pytest.mark.parametrize("words", KNOWN)
def test_a_word_that_vllm_or_a_plugin_knows_or_that_cannot_be_seen_is_not_mentioned(words):
    assert told(f"vllm serve m {words}") == []


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("-q bitsandbytes", 0),  # of an earlier version
        ("--reasoning-parser qwen4", 0),  # perhaps of a later one
        ("-q zzz", 0),
        ("-q compresed-tensors", 1),
        ("--enable-auto-tool-choice --tool-call-parser hermess", 1),
    ],
)
def test_of_an_image_with_another_vllm_only_what_is_surely_misspelt_is_told(words, count):
    assert [rule for rule, _, _ in told(f"vllm serve m {words}", THEIRS)] == ["vllm/value"] * count


LENGTHS = {
    "Qwen/Qwen2.5-7B-Instruct": 32_768,
    "/models/Qwen2.5-7B-Instruct-AWQ/": 32_768,
    "Qwen/Qwen2.5-7B": None,
    "Qwen/Qwen2.5-7B-Instruct-1M": None,
    "Qwen/Qwen3-8B": 40_960,
    "Qwen/Qwen3-4B-Instruct-2507": None,
    "meta-llama/Llama-3.1-8B-Instruct": 131_072,
    "meta-llama/Meta-Llama-3-8B": 8_192,
    "togethercomputer/LLaMA-2-7B-32K": None,
    "mistralai/Mistral-7B-Instruct-v0.3": 32_768,
    "me/my-model": None,
}


@pytest.mark.parametrize(("model", "length"), LENGTHS.items())
def test_the_longest_context_is_known_of_names_of_which_all_sizes_have_it(model, length):
    assert model_shapes.find(model).context == length


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("--max-model-len 131072", 1),
        ("--max-model-len 64k", 1),
        ("--max-model-len 32768", 0),
        ("--max-model-len auto", 0),
        ('--max-model-len 131072 --hf-overrides {"rope_scaling":{"factor":4.0}}', 0),
    ],
)
def test_a_length_above_the_context_of_the_model_is_a_warning(words, count):
    said = told(f"vllm serve Qwen/Qwen2.5-7B-Instruct {words}")
    assert [(rule, severity) for rule, severity, _ in said] == [("vllm/model", WARNING)] * count


def test_a_length_that_the_env_allows_is_not_mentioned():
    env = [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]
    assert told("vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 131072", env=env) == []


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("Qwen/Qwen3-8B", 1),
        ("Qwen/Qwen3-30B-A3B", 0),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 1),
        ("deepseek-ai/DeepSeek-V3", 0),
        ("me/my-model", 0),
    ],
)
def test_expert_parallelism_without_experts_is_a_warning(model, count):
    said = told(f"vllm serve {model} --enable-expert-parallel")
    assert [rule for rule, _, _ in said] == ["vllm/model"] * count


VARIABLES = {
    "a port of a Service": ("VLLM_PORT", "tcp://10.0.0.1:8000", 1),
    "a port in words": ("VLLM_PORT", "http", 1),
    "a port": ("VLLM_PORT", "8100", 0),
    "a switch as a word": ("VLLM_USE_DEEP_GEMM", "true", 1),
    "a switch": ("VLLM_USE_DEEP_GEMM", "1", 0),
    "a method that is none": ("VLLM_WORKER_MULTIPROC_METHOD", "thread", 1),
    "a method": ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", 0),
    "a switch that takes words": ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "true", 0),
    "a value that cannot be seen": ("VLLM_PORT", "$(PORT)", 0),
    "digits without end": ("VLLM_PORT", "1" * 5000, 1),
}


@pytest.mark.parametrize(("name", "value", "count"), VARIABLES.values(), ids=VARIABLES)
def test_a_variable_that_vllm_cannot_convert_is_a_warning(name, value, count):
    said = told("vllm serve m", env=[{"name": name, "value": value}])
    assert [(rule, severity) for rule, severity, _ in said] == [("vllm/value", WARNING)] * count


@pytest.mark.parametrize("command", ["bench serve --model m", "run-batch -i a -o b --model m"])
def test_a_command_of_vllm_that_serves_nothing_is_no_reason_to_warn(command):
    done = enforce(
        "vllm",
        jobset(
            replicated_job("server", {"name": "s", "image": OURS, "command": ["vllm", *command.split()]}),
            framework="vllm",
        ),
    )
    assert [(each.rule, each.severity) for each in done.changes.findings] == [("vllm/not-enforced", Severity.NOTE)]


REFUSED = {
    "a member that is misspelt": ('--structured-outputs-config={"bakend":"auto"}', "did you mean backend?"),
    "a member of an earlier version": ('--compilation-config={"level":3}', "it has no member 'level' here"),
    "a word that is none": ('--structured-outputs-config={"backend":"outline"}', "and not 'outline'"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_a_member_of_json_that_vllm_does_not_know_is_refused(words, said):
    ((rule, severity, message),) = told(f"vllm serve m {words}")
    assert (rule, severity) == ("vllm/value", Severity.ERROR)
    assert said in message


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ('--structured-outputs-config={"bakend":"auto"}', 1),
        ('--structured-outputs-config={"backend":"outline"}', 0),  # perhaps a word of a later one
        ('--compilation-config={"level":3}', 0),  # a member of an earlier one
    ],
)
def test_an_image_of_ones_own_may_know_other_members(words, count):
    said = told(f"vllm serve m {words}", THEIRS)
    assert [(rule, severity) for rule, severity, _ in said] == [("vllm/value", WARNING)] * count


@pytest.mark.parametrize(
    "words",
    [
        '--structured-outputs-config={"backend":"Guidance"}',
        '--structured-outputs-config={"backend":"$(B)"}',
        "--compilation-config.mode=3",
        '--compilation-config={"mode":3} -cc.pass_config={"fuse_norm_quant":true}',
        "--compilation-config={}",
        "--hf-overrides=mine.overrides",
        '--hf-overrides={"a":1}',
    ],
)
def test_members_that_vllm_takes_or_that_cannot_be_seen_are_not_mentioned(words):
    assert told(f"vllm serve m {words}") == []


def test_of_thousands_of_unknown_members_a_few_are_told():
    members = ",".join(f'"m{number}":1' for number in range(3000))
    assert len(told(f"vllm serve m --compilation-config={{{members}}}")) == 6


def test_an_object_that_is_not_json_is_refused():
    ((rule, _, message),) = told("vllm serve m --hf-overrides={rope:4}")
    assert rule == "vllm/arguments"
    assert "is not JSON, though it has braces" in message
