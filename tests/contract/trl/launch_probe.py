"""What `torchrun` and `trl <method>` would start, and what TRL's configurations refuse: run by a python that has trl.

Reads {"launches": {name: {"program", "argv", "env", "gpus"}}, "configs": {name: {"method", "argv", "env"}}} on
stdin and prints one result per name. Nothing is started: the last call before a process would be born is caught, and
its arguments are told. The number of GPUs is pretended. With "through", the script that a launch would start is run as
well, up to its training: the result is {"trains": method}, or how launcher or script fails.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn  # TRL, accelerate and torch are only known at run time
from unittest import mock

Result = dict[str, Any]


class CaughtError(Exception):
    """Carries what would have been started."""

    def __init__(self, result: Result) -> None:
        super().__init__("caught")
        self.result = result


def added(environment: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """Variables that the workers get beyond those that the launcher had."""
    return {k: v for k, v in environment.items() if before.get(k) != v}


def catch_torchrun(before: dict[str, str]) -> Any:
    """A stand-in for torch.distributed.run.run."""

    def run(args: Any) -> NoReturn:
        if args.standalone:
            raise CaughtError({"by": "torchrun", "standalone": True})
        config, command, command_args = importlib.import_module("torch.distributed.run").config_from_args(args)
        raise CaughtError(
            {
                "by": "torchrun",
                "nodes": [config.min_nodes, config.max_nodes],
                "processes": config.nproc_per_node,
                "backend": config.rdzv_backend,
                "endpoint": config.rdzv_endpoint,
                "id": config.run_id,
                "rank": config.rdzv_configs.get("rank"),
                "command": [command, *command_args],
                "env": added(dict(os.environ), before),
            }
        )

    return run


def catch_process(before: dict[str, str]) -> Any:
    """A stand-in for subprocess.Popen as accelerate uses it."""

    def popen(command: list[str], env: dict[str, str]) -> NoReturn:
        raise CaughtError({"by": "python", "command": command, "env": added(env, before)})

    return popen


@contextlib.contextmanager
def pretended(gpus: int, env: dict[str, str]) -> Iterator[None]:
    """A machine with so many GPUs, free ports and DeepSpeed, and with `env`; all catchers in place."""
    launch = importlib.import_module("accelerate.commands.launch")
    runner = types.SimpleNamespace(DEEPSPEED_ENVIRONMENT_NAME=os.devnull)
    modules = {name: types.ModuleType(name) for name in ("deepspeed", "deepspeed.launcher")}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, env))
        stack.enter_context(mock.patch.dict(sys.modules, modules | {"deepspeed.launcher.runner": runner}))
        before = dict(os.environ)
        for target, replacement in (
            ("torch.cuda.device_count", mock.Mock(return_value=gpus)),
            ("torch.cuda.is_available", mock.Mock(return_value=gpus > 0)),
            ("torch.distributed.run.run", catch_torchrun(before)),
            ("accelerate.utils.launch.is_port_in_use", mock.Mock(return_value=False)),
        ):
            stack.enter_context(mock.patch(target, replacement))
        stack.enter_context(mock.patch.object(launch, "subprocess", types.SimpleNamespace(Popen=catch_process(before))))
        stack.enter_context(mock.patch.object(launch, "is_deepspeed_available", return_value=True))
        stack.enter_context(mock.patch.object(launch, "check_cuda_p2p_ib_support", return_value=True))
        yield


def launched(case: Result) -> Result:
    """What one command line would start."""
    program, argv = case["program"], case["argv"]
    with pretended(case.get("gpus", 0), case.get("env", {})):
        if program == "accelerate":
            main = importlib.import_module("accelerate.commands.launch").main
            with mock.patch.object(sys, "argv", [program, *argv]):
                return outcome(main)
        module = {"trl": "trl.cli.main", "torchrun": "torch.distributed.run"}[program]
        with mock.patch.object(sys, "argv", [program]):
            return outcome(lambda: importlib.import_module(module).main(argv))


def trained(case: Result) -> Result:
    """What one command line comes to: the launcher, then the script in the process that it would start."""
    found = launched(case)
    if "command" not in found:
        return found
    words = [word for word in found["command"][1:] if word != "-u"]
    if words[0] == "-c":
        name = re.search(r"trl\.scripts\.\w+", words[1])[0]
        text, argv = words[1].replace(f"from {name} import main, make_parser; ", ""), words[2:]
    else:
        argv = words[2:] if words[0] == "-m" else words[1:]
        name = words[1] if words[0] == "-m" else f"trl.scripts.{Path(words[0]).stem}"
        if importlib.util.find_spec(name) is None:
            return {"error": "FileNotFoundError", "message": words[0]}
        tree = ast.parse(Path(importlib.util.find_spec(name).origin).read_text())
        tree.body = [each for each in tree.body if getattr(each, "name", "") not in ("main", "make_parser")]
        text = ast.unparse(tree)
    module = importlib.import_module(name)
    scope = {"__name__": "__main__", "main": trains(name), "make_parser": module.make_parser}
    with mock.patch.object(sys, "argv", [words[0], *argv]):
        return outcome(lambda: exec(text, scope))  # noqa: S102  # the script's own last lines


def trains(name: str) -> Any:
    """A stand-in for the `main` of a script, which is given what was parsed."""

    def main(*_parsed: Any) -> NoReturn:
        raise CaughtError({"trains": name})

    return main


def configured(case: Result) -> Result:
    """What a training script makes of its arguments before it touches model and data."""
    parser = importlib.import_module(f"trl.scripts.{case['method']}").make_parser()
    with mock.patch.dict(os.environ, case.get("env", {})):
        return outcome(lambda: described(parser.parse_args_and_config(case["argv"], fail_with_unknown_args=False)[1]))


def described(training: Any) -> NoReturn:
    """The distributed state that a training configuration has set up, torn down again."""
    distributed = importlib.import_module("torch.distributed")
    grouped = distributed.is_initialized()
    result = {
        "world": training.world_size,
        "backend": training.distributed_state.backend,
        "wrapped": str(training.parallel_mode).rpartition(".")[2],
        "group": grouped,
        "bf16": training.bf16,
        "mixed_precision": training.mixed_precision,
    }
    if grouped:
        distributed.destroy_process_group()
    raise CaughtError(result)


def outcome(call: Any) -> Result:
    """The result that `call` was caught with, or how it failed."""
    errors = sys.stderr
    try:
        with contextlib.redirect_stdout(errors):
            call()
    except CaughtError as caught:
        return caught.result
    except SystemExit as end:
        return {"error": "SystemExit", "message": str(end.code)}
    except Exception as error:  # noqa: BLE001 - how it fails is what is asked for
        return {"error": type(error).__name__, "message": str(error)}
    return {"error": "nothing was started"}


def main() -> None:
    """Answer every request."""
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    # Imports first: under the pretences below transformers would find a DeepSpeed that is none.
    importlib.import_module("trl.scripts.grpo").make_parser()
    importlib.import_module("accelerate.commands.launch")
    asked = request.get("launches", {}).items()
    answer = {name: trained(case) if case.get("through") else launched(case) for name, case in asked}
    answer |= {name: configured(case) for name, case in request.get("configs", {}).items()}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
