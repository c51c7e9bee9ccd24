"""What `tune run` comes to: launcher, then the recipe's own reading of its config, up to the training.

Reads {name: {"argv", "env"}} on stdin and prints {name: {"trains": recipe} or {"error", "message"}}; nothing is
started.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from typing import Any, NoReturn  # torchtune and torch are only known at run time
from unittest import mock


class CaughtError(Exception):
    """Carries the recipe that would train, and its arguments."""


def by_torchrun(args: Any) -> NoReturn:
    """A stand-in for torch.distributed.run.run, which first reads its options as that does."""
    importlib.import_module("torch.distributed.run").config_from_args(args)
    raise CaughtError(args.training_script, args.training_script_args)


def by_python(path: str, run_name: str) -> NoReturn:  # as runpy calls it
    """A stand-in for runpy's functions."""
    raise CaughtError(path, sys.argv[1:])


def comes_to(argv: list[str], env: dict[str, str]) -> dict[str, str]:
    """How one command line ends."""
    cli = importlib.import_module("torchtune._cli.tune")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, env))
        stack.enter_context(mock.patch.object(sys, "argv", argv))
        for target, stand_in in (
            ("torchtune._cli.run.run", by_torchrun),
            ("runpy.run_path", by_python),
            ("runpy.run_module", by_python),
            ("torch.cuda.device_count", lambda: 2),
            ("torch.cuda.is_available", lambda: True),
        ):
            stack.enter_context(mock.patch(target, stand_in))
        try:
            cli.main()
        except CaughtError as caught:
            recipe, args = caught.args
            return parsed(str(recipe), args)
        except SystemExit as end:
            return {"error": "SystemExit", "message": str(end.code)}
        except Exception as error:  # noqa: BLE001 - how it fails is what is asked for
            return {"error": type(error).__name__, "message": str(error)}
    return {"error": "nothing was started"}


def parsed(recipe: str, args: list[str]) -> dict[str, str]:
    """What the recipe makes of its arguments before it trains."""
    if not recipe.endswith(".py") and importlib.util.find_spec(recipe.lstrip(".")) is None:
        return {"error": "ModuleNotFoundError", "message": recipe}
    config = importlib.import_module("torchtune.config")
    with mock.patch.object(sys, "argv", [recipe, *args]):
        try:
            config.parse(lambda _: None)()
        except SystemExit as end:
            return {"error": "SystemExit", "message": str(end.code)} if end.code else {"trains": recipe}
        except Exception as error:  # noqa: BLE001 - as above
            return {"error": type(error).__name__, "message": str(error)}
    return {"error": "nothing was started"}


def main() -> None:
    """Answer every question."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answers = {name: comes_to(each["argv"], each["env"]) for name, each in asked.items()}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
