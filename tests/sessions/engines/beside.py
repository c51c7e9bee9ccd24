"""A program: two ranks and one alone do the same; it writes how far they are apart, as JSON.

A process of its own, because it ends when a rank does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from muster.sessions.engines import ranks
from muster.sessions.engines.whole import WholeTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Lora
from muster.sessions.weights import manifest, tensors
from tests.sessions.engines import drawn

ADAM = Adam(learning_rate=1e-3, weight_decay=0.01, grad_clip_norm=1.0)
STEPS = [
    drawn.step(0),
    drawn.step(1, (30, 2, 7), loss="importance_sampling"),
    drawn.step(2, (7,)),  # the other rank has nothing
    drawn.step(3, (40, 40, 40, 3, 9), loss="gspo"),
    drawn.step(4, (11, 12, 13), loss="cispo"),
]
FILES = ("model.safetensors", "optimizer.safetensors")


def main(base, folder):
    one, many = WholeTrainer(base, budget=64), ranks.joined(base, ranks=2, budget=64, patience=60)
    both = (one, many)
    for each in both:
        each.create("m", Lora(rank=0))
    told = {"losses": [], "logprobs": [], "norms": [], "refused": refusals(many)}
    for step in STEPS:
        mine, its = (each.step("m", step) for each in both)
        tokens = sum(len(each.tokens) for each in step.data)  # a loss is a sum over them
        told["losses"].append(far(mine.metrics["loss:sum"], its.metrics["loss:sum"]) / tokens)
        told["logprobs"] += [far(*pair) for pair in zip(mine.logprobs, its.logprobs, strict=True)]
        mine, its = (each.optim("m", ADAM)["grad_norm:mean"] for each in both)
        told["norms"].append(far(mine, its) / mine)
    many.step("m", STEPS[0])  # what follows shows that the refused step has changed nothing
    told["refused"].append(refusal(lambda: many.optim("m", Adam(learning_rate=1e30, weight_decay=1e30))))
    one.step("m", STEPS[0])
    for each in both:
        each.optim("m", ADAM)
    one.save("m", folder / "one", optimizer=True)
    many.save("m", folder / "many", optimizer=True)
    told["weights"] = apart(folder / "one", folder / "many")
    told["named alike"] = listed(folder / "one") == listed(folder / "many")
    many.load("m", folder / "one", optimizer=True)
    many.save("m", folder / "again", optimizer=True)
    written = [[(folder / name / file).read_bytes() for file in FILES] for name in ("one", "again")]
    told["read and written"] = written[0] == written[1]
    one.load("m", folder / "many", optimizer=True)
    many.load("m", folder / "many", optimizer=True)
    for step in STEPS:
        for each in both:
            each.step("m", step)
            each.optim("m", ADAM)
    one.save("m", folder / "one", optimizer=True)
    many.save("m", folder / "many", optimizer=True)
    told["goes on"] = apart(folder / "one", folder / "many")
    return told


def sixteen(base, folder):
    """Return whether one rank writes alike what ranks trained in bfloat16, and how far their losses are apart."""
    one = WholeTrainer(base, budget=64, dtype=torch.bfloat16)
    many = ranks.joined(base, ranks=2, budget=64, patience=60, dtype=torch.bfloat16)
    losses = []
    for each in (one, many):
        each.create("m", Lora(rank=0))
        for step in STEPS:
            each.step("m", step)
            each.optim("m", ADAM)
        losses.append(each.step("m", STEPS[0]).metrics["loss:sum"])
    many.save("m", folder / "sixteen", optimizer=True)
    one.load("m", folder / "sixteen", optimizer=True)
    one.save("m", folder / "sixteen again", optimizer=True)
    written = [[(folder / name / file).read_bytes() for file in FILES] for name in ("sixteen", "sixteen again")]
    return {"written alike": written[0] == written[1], "losses": abs(losses[1] / losses[0] - 1)}


def refusals(many):
    """Return what ranks answer to what cannot be; they answer afterwards as before."""
    calls = (
        lambda: many.create("m", Lora(rank=8)),
        lambda: many.create("other", Lora(rank=0)),
        lambda: many.optim("m", ADAM),
        lambda: many.load("m", Path("/no/such"), optimizer=False),
    )
    return [refusal(call) for call in calls]


def refusal(call):
    """Return how a call is refused; empty where it is not."""
    try:
        call()
    except Refused as refused:
        return str(refused)
    return ""


def far(one, other):
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).max())


def apart(one, other):
    pairs = [(tensors.read(one, name), tensors.read(other, name)) for name in FILES]
    return max(far(mine[key], its[key]) for mine, its in pairs for key in mine)


def listed(folder):
    return {name: each.tensors for name, each in manifest.read(folder).files.items()}


if __name__ == "__main__":
    what, *places = sys.argv[1:]
    found = {"float32": main, "bfloat16": sixteen}[what](*map(Path, places))
    Path(places[1], "told.json").write_text(json.dumps(found))
