"""Whether TRL itself refuses command lines: run by a python that has trl, never imported.

Reads {"lines": [{"method", "argv", "env", "proof"}], "models": FOLDER, "output": FOLDER} on stdin and prints for each
line how it was refused, or "" where it was taken. `config`: parser and configuration; `trainer`: the script's own
`main`, one step of training of a tiny model on a CPU. All in one process, since importing torch is what takes the time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any
from unittest import mock

ALWAYS = {"use_cpu": (), "bf16": ("false",), "report_to": ("none",), "max_steps": ("1",), "logging_steps": ("1",)}
OF_METHODS = {
    "grpo": {"reward_funcs": ("rewards.small_letters",), "max_completion_length": ("4",), "num_generations": ("2",)},
}
OF_METHODS["rloo"] = OF_METHODS["grpo"]


def completed(case: dict[str, Any], models: str, output: str) -> list[str]:
    """The arguments with a model, data and a CPU where the line says nothing of them."""
    method, argv = case["method"], case["argv"]
    given = {word.lstrip("-").partition("=")[0] for word in argv}
    own: dict[str, tuple[str, ...]] = {
        "model_name_or_path": (f"{models}/llama",),
        "dataset_name": (f"{models}/data/{'grpo' if method == 'rloo' else method}",),
        "output_dir": (output,),
        **ALWAYS,
        **(OF_METHODS.get(method, {}) if case["proof"] == "trainer" else {}),
    }
    more = [word for name, values in own.items() if name not in given for word in (f"--{name}", *values)]
    return [*argv, *more]


def refused(case: dict[str, Any], argv: list[str]) -> str:
    """How one line is refused."""
    script = importlib.import_module(f"trl.scripts.{case['method']}")
    try:
        with mock.patch.dict(os.environ, case["env"]), contextlib.redirect_stdout(sys.stderr):
            parsed = script.make_parser().parse_args_and_config(argv, fail_with_unknown_args=True)
            if case["proof"] == "trainer":
                script.main(*parsed)
    except SystemExit as end:
        return f"exit {end.code}"
    except BaseException as error:  # noqa: BLE001 - how it fails is what is asked for
        return f"{type(error).__name__}: {error}"[:400] or "failed"
    return ""


def main() -> None:
    """Answer every line."""
    warnings.simplefilter("ignore")
    # torchtune, which is installed beside, needs an older torchao than peft takes; TRL alone has none.
    for module in ("peft.import_utils", "peft.tuners.lora.torchao"):
        importlib.import_module(module).is_torchao_available = lambda: False
    request = json.load(sys.stdin)
    sys.path.insert(0, request["path"])
    lines, folders = request["lines"], (request["models"], request["output"])
    json.dump([refused(case, completed(case, *folders)) for case in lines], sys.stdout)


if __name__ == "__main__":
    main()
