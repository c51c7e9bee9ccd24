"""`muster demo`: a job as people write it, how and why it is changed, and the same job with mistakes.

It needs no cluster, GPU or file: the jobs are below, and the output is that of `muster explain` and `muster check`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import textwrap
from pathlib import Path

from muster.webhook.cli import cases, gathering, problems, wording
from muster.webhook.cli.cases import Setup
from muster.webhook.cli.commands import explain
from muster.webhook.kubeyaml import sources

__all__ = ["run"]

_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: first-sft
spec:
  runtimeRef:
    name: trl-distributed
  trainer:
    command: [trl, sft]
    args: [--model_name_or_path=Qwen/Qwen2.5-0.5B, --dataset_name=trl-lib/Capybara, --output_dir=/tmp/output]
    numNodes: 2
    resourcesPerNode:
      limits:
        nvidia.com/gpu: 1
"""
_ARGS = "--dataset_name=trl-lib/Capybara"
_WRONG_ARGS = f"{_ARGS}, --learning_rte=2e-5, --bf16=true, --fp16=true"


def run(args: argparse.Namespace) -> int:
    """Show the demo, or only its job; see `arguments` for the arguments."""
    if args.job:
        sys.stdout.write(_JOB)
        return problems.CLEAN
    setup = _setup(_JOB)
    print("A job as people write it, for two nodes with one GPU each. Without Muster it trains twice, on two nodes")
    print("that never meet, and both end with exit code 0:\n")
    print(textwrap.indent(_JOB, "    "))
    print("What Muster changes in it, and why (`muster explain`):\n")
    explain.show(setup)
    print("\nWith `--learning_rte=2e-5 --bf16=true --fp16=true` it is refused at once, with all its errors,")
    print("instead of failing after its pods were scheduled (`muster check`):\n")
    wrong = _setup(_JOB.replace(_ARGS, _WRONG_ARGS))
    for line in wording.lines(wrong.decide(wrong.sources[0])):
        print(line)
    print("\nNow you, and then with a job of your own:\n")
    for command in ("demo --job >", "explain", "check", "render -o diff"):
        print(f"    {_called()} {command} first-sft.yaml")
    return problems.CLEAN


def _called() -> str:
    """Return the words that call this command again: where it is not on the path, as after `make demo`, its file."""
    program = Path(sys.argv[0])
    if program.name.startswith("kubectl-muster"):
        return "kubectl muster"
    if program.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m muster"
    found = shutil.which(program.name)
    if found and Path(found).resolve() == program.resolve():
        return program.name
    return shlex.quote(str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program))


def _setup(text: str) -> Setup:
    found = sources.read_text("first-sft.yaml", text)
    return Setup(found.sources, [], gathering.gather(found.sources), cases.policy(None), "default")
