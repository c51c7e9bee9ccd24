"""Whether vLLM takes command lines: run by a python that has vllm, once for many lines; no GPU, no network.

Reads {"gpus": count, "lines": [[word, ...], ...]} on stdin, each line `vllm serve` and its words, with `NAME=value`
before them for variables. Prints for each "" where vLLM comes to where it would start its engine, else the first
line of what it says. That place lies behind its parser, `validate_parsed_serve_args`, `ServeSubcommand.cmd` and all of
`AsyncEngineArgs.create_engine_config`; all four are vLLM's own, and only what opens ports or starts processes is
replaced.

The platform is vLLM's own one for CUDA with the answers of eight H100 (`Pretended`), because vLLM built for CPUs asks
otherwise for less than half of the checks. Models are folders with a config.json alone, made on the spot: `dense` and
`mixture`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, NoReturn  # vLLM is only known at run time

MODELS = {
    "dense": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "mixture": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
}
SHAPE = {
    "hidden_size": 1024,
    "intermediate_size": 1024,
    "max_position_embeddings": 32768,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 32000,
}


KERNELS = ("vllm._C", "vllm._C_stable_libtorch", "vllm.vllm_flash_attn")


class Kernels(types.ModuleType):
    """A stand-in for compiled code, of which nothing is called before an engine starts."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_named: True


class RefusedError(Exception):
    """argparse would exit with status 2."""


class ReachedError(Exception):
    """vLLM has taken everything and would start its engine now."""


def refuse(_parser: object, message: str) -> NoReturn:
    """A stand-in for ArgumentParser.error."""
    raise RefusedError(message)


def reach(*_args: object, **_named: object) -> NoReturn:
    """A stand-in for what starts an engine."""
    raise ReachedError


def pretend(count: int) -> None:
    """Make vLLM believe in `count` H100."""
    for name in KERNELS:
        sys.modules[name] = Kernels(name)
    platforms: Any = importlib.import_module("vllm.platforms")
    cuda: Any = importlib.import_module("vllm.platforms.cuda")
    capability = platforms.interface.DeviceCapability(9, 0)

    class Pretended(cuda.CudaPlatformBase):  # type: ignore[misc]  # vLLM has no types here
        """vLLM's platform for CUDA without a driver."""

        get_device_capability = classmethod(lambda *_args, **_named: capability)
        get_device_name = classmethod(lambda *_args, **_named: "NVIDIA H100 80GB HBM3")
        get_device_total_memory = classmethod(lambda *_args, **_named: 80 * 1024**3)
        is_fully_connected = classmethod(lambda *_args, **_named: True)
        device_count = classmethod(lambda _cls: count)
        num_compute_units = classmethod(lambda *_args, **_named: 132)
        is_integrated_gpu = classmethod(lambda *_args, **_named: False)

    platforms._current_platform = Pretended()
    kernels: Any = importlib.import_module("vllm._custom_ops")
    for name in filter(lambda each: "supports" in each, dir(kernels)):
        setattr(kernels, name, lambda *_args: False)
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda inspect: inspect()
    registry._LazyRegisteredModel._save_modelinfo_to_cache = lambda *_args: None


def stop_before_engines(serve: Any) -> None:
    """Replace what opens ports or starts processes."""

    def run(coroutine: Any) -> None:
        """A stand-in for `uvloop.run(run_server(args))`, which makes the configuration first of all."""
        args = coroutine
        serve.vllm.AsyncEngineArgs.from_cli_args(args).create_engine_config(
            usage_context=serve.UsageContext.OPENAI_API_SERVER
        )
        raise ReachedError

    serve.run_server = lambda args: args
    serve.uvloop = types.SimpleNamespace(run=run)
    serve.setup_multiprocess_prometheus = lambda: None
    serve.setup_server = lambda *_args, **_named: ("", None)
    serve.Executor = types.SimpleNamespace(get_class=reach)
    serve.MultiprocExecutor = serve.run_dp_supervisor = reach


def ask(serve: Any, parser: Any, words: list[str]) -> str:
    """What vLLM says to one command line, "" for nothing."""
    count = words.index("vllm")
    variables = dict(word.split("=", 1) for word in words[:count])
    os.environ.update(variables)
    command = serve.ServeSubcommand()
    said: BaseException
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            args = parser.parse_args(words[count + 1 :])
            command.validate(args)
            command.cmd(args)
    except ReachedError:
        return ""
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, vLLM stops there
        said = error
    else:
        return "vLLM came to no end"
    finally:
        for name in variables:
            del os.environ[name]
    lines = [f"{type(said).__name__}:", *str(said).splitlines()]
    return " ".join(" ".join(line.split()) for line in lines[:4])


def main() -> None:
    """Answer every line."""
    request = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr  # vLLM's workers print what they like
    pretend(request["gpus"])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, own in MODELS.items():
            Path(name).mkdir()
            (Path(name) / "config.json").write_text(json.dumps({**SHAPE, **own}), encoding="utf-8")
        serve: Any = importlib.import_module("vllm.entrypoints.cli.serve")
        parser = serve.FlexibleArgumentParser()
        type(parser).error = refuse
        command = serve.ServeSubcommand()
        command.subparser_init(parser.add_subparsers(dest="subparser"))
        stop_before_engines(serve)
        answers = [ask(serve, parser, line) for line in request["lines"]]
        out.write(json.dumps(answers))
        out.flush()


if __name__ == "__main__":
    main()
