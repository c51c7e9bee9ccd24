"""Texts that grow: scripts of a shell in every style, and the other texts that Muster reads rather than copies.

A script stands alone, and once more before a launch, so that it is read to its end. Of a text that holds a value, the
value grows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.growth.axes import Axis, Case, Place, grown, places, skeletons
from tests.support import devices, jobs

__all__ = ["axes"]

_UNIT = 1024
_LAUNCH = "\ntorchrun --nproc_per_node=2 a.py"

_STYLES = {
    # commands
    "words": "a ",
    "torchrun": "torchrun --nproc_per_node=2 a.py\n",
    "accelerate": "accelerate launch --num_processes 2 a.py\n",
    "trl": "trl sft --model_name_or_path m\n",
    "python in the background": "python a.py &\n",
    "options": "torchrun --nproc_per_node 2 ",
    "flags": "--a=b ",
    "pipes": "a|",
    "semicolons": "a;",
    "ampersands": "a&",
    "and": "a && ",
    "not": "! ",
    "time": "time ",
    "exec": "exec ",
    "nohup": "nohup ",
    "xargs": "xargs ",
    "ssh": "ssh a ",
    "shells": "bash -c ",
    "eval": "eval ",
    "env": "env A=1 ",
    "sourced": ". a\n",
    "cd": "cd /a\n",
    "comments": "# a\n",
    "one comment": "#",
    "lines that go on": "a \\\n",
    "newlines": "\n",
    "blanks": " ",
    # variables
    "assignments": "A=1 ",
    "exports": "export A=1\n",
    "exports that double": "export A=$A$A\n",
    "many variables": None,
    "positional": "set -- $@ a\n",
    "dollars": "$A",
    "defaults": "${A:-",
    "arithmetic": "$((1+",
    "arithmetic commands": "((a=1))\n",
    "let": "let a=1\n",
    "arrays": "A+=(a)\n",
    "read": "read A <<< 1\n",
    "local": "local A=1\n",
    # quotes and expansions
    "quotes": "'a' ",
    "double quotes": '"$a" ',
    "quotes in quotes": "'\"",
    "one quote": "'",
    "one double quote": '"',
    "ANSI quotes": "$'a' ",
    "backslashes": "\\",
    "backticks": "`a` ",
    "only backticks": "`",
    "substitutions": "$(a) ",
    "nested substitutions": "$(",
    "process substitutions": "<(a) ",
    "braces": "{a,b}",
    "only braces": "{",
    "parentheses": "(",
    "brackets": "[",
    "double brackets": "[[ $A == b ]] ",
    # redirections
    "heredocs": "cat <<E\na\nE\n",
    "heredocs with variables": "cat <<E\n$A $(b)\nE\n",
    "heredocs without an end": "<<E\n",
    "redirections": "a >b\n",
    "both outputs": "a &>b\n",
    # compound
    "if": "if a; then b; fi\n",
    "nested if": "if a; then ",
    "elif": "elif a; then b\n",
    "for": "for i in 1 2; do a; done\n",
    "nested for": "for i in a; do ",
    "while": "while a; do b; done\n",
    "nested while": "while a; do ",
    "case": "case a in b) c;; esac\n",
    "nested case": "case a in b) ",
    "functions": "f() { a; }\n",
    "many functions": None,
    "groups": "{ a; }\n",
    "aliases": "alias a='b'\n",
    "traps": "trap a EXIT\n",
    # characters
    "letters": "a",
    "digits": "9",
    "beyond ASCII": "é ",
    "a command of one name": None,
}

_ONES = {
    "many variables": lambda size: "".join(f"export A{n}=$A{n - 1}\n" for n in range(size // 16)),
    "many functions": lambda size: "".join(f"f{n}() {{ f{n - 1}; }}\n" for n in range(size // 16)) + "f3",
    "a command of one name": lambda size: f"(({'a' * size}))",
}

_WORDS = {
    "a flag's value": lambda size: f"--lr={'9' * size}",
    "a flag": lambda size: f"--{'a' * size}",
    "a flag of dashes": lambda size: "-" * size,
    "an override": lambda size: f"a.b={'[' * size}",
    "a reference": lambda size: f"--lr=$({'A' * size}",
    "references": lambda size: "--lr=" + "$(A)" * (size // 4),
    "an address": lambda size: f"--rdzv_endpoint=$(hostname{' ' * size}",
    "commas": lambda size: "--x=" + "a," * (size // 2),
    "nested json": lambda size: "--x=" + '{"a":' * (size // 5),
}

_QUANTITIES = {
    "digits": lambda size: "9" * size,
    "digits and a stranger": lambda size: "9" * size + "x",
    "a fraction": lambda size: "0." + "0" * size + "1",
    "an exponent": lambda size: "1e" + "9" * size,
}


def _script(name: str, size: int) -> str:
    style = _STYLES[name]
    return style * (size // len(style)) if style else _ONES[name](size)


def axes() -> Iterator[Axis]:
    """Yield the axes of all texts."""
    cases = skeletons()
    yield from _scripts(cases["jobset-shell"])
    for name in ("jobset-torch", "trainjob-trl", "trainjob-torchtune", "jobset-vllm", "jobset-accelerate"):
        place = _found(cases[name], "args")
        for what, text in _WORDS.items():
            yield _axis(f"words {name} {what}", cases[name], place, lambda found, size, text=text: [*found, text(size)])
    for what, text in _QUANTITIES.items():
        place = _found(cases["jobset-torch"], "nvidia.com/gpu")
        yield _axis(f"quantities {what}", cases["jobset-torch"], place, lambda _, size, text=text: text(size))
    yield _snapshots()


def _scripts(case: Case) -> Iterator[Axis]:
    place = _found(case, "args")
    for name in _STYLES:
        for behind in ("", _LAUNCH):
            full = f"scripts {name}{' before a launch' if behind else ''}"
            yield _axis(
                full, case, place, lambda _, size, name=name, behind=behind: ["-c", _script(name, size) + behind]
            )


def _axis(name: str, case: Case, place: Place, change: Any) -> Axis:
    return Axis(name, lambda size: place.changed(case, lambda found: change(found, size)), _UNIT)


def _found(case: Case, key: str) -> Place:
    return next(place for place, _ in places(case) if place.path[-1] == key)


def _snapshots() -> Axis:
    """The text in which Trainer froze a runtime."""
    case = skeletons()["owned"]
    trainjob, runtime, *others = case.cluster
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "uid": "t1"}
    metadata = {"name": "llama-runtime-snapshot", "namespace": jobs.NAMESPACE, "ownerReferences": [reference]}

    def make(size: int) -> Case:
        frozen = json.loads(json.dumps(runtime))
        pod = devices.pod_of(frozen["spec"]["template"])
        pod["containers"][0]["env"] = grown(pod["containers"][0]["env"], size // 32, "other")
        data = {"runtime": json.dumps(frozen)}
        snapshot = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return Case(case.document, (trainjob, runtime, snapshot, *others))

    return Axis("snapshots", make, _UNIT)
