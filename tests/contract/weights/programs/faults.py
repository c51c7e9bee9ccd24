"""`faults.py URL MODEL FOLDER`: a trainer whose files are hurt in each way; prints what its sampler said and served.

Each line is JSON: the fault, the sampler's reason, how far its log probabilities are from the weights that it served
before, and from those that it was sent.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from muster_weights import folders, names
from muster_weights.trainer.probes import Probe
from muster_weights.trainer.servers import Held
from muster_weights.trainer.settings import Settings
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.tensors import named

torch.set_num_threads(1)
URL, MODEL, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])


class Ended(Exception):  # noqa: N818  # what happened
    """What a training would end with."""


def refused(reason: str) -> None:
    """Stand for the end of the training."""
    raise Ended(reason)


def loaded() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


def shaken(model: Any) -> None:
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn_like(each) * 0.05)


def weights(told: names.Told) -> Path:
    return FOLDER / told.run / names.folder_of(told.version) / names.DATA


def torn(told: names.Told) -> names.Told:
    weights(told).write_bytes(weights(told).read_bytes()[:-64])
    return told


def changed(told: names.Told) -> names.Told:
    data = bytearray(weights(told).read_bytes())
    data[1000] ^= 1
    weights(told).write_bytes(data)
    return told


def planted(told: names.Told) -> names.Told:
    """Put another whole version, with its own manifest that fits, in the place of this one."""
    other = folders.publish(FOLDER, "planted", told.version, named(loaded().named_parameters()))
    shutil.rmtree(weights(told).parent)
    weights(other).parent.rename(weights(told).parent)
    return told


def linked(told: names.Told) -> names.Told:
    elsewhere = FOLDER.with_name("elsewhere")
    weights(told).rename(elsewhere)
    weights(told).symlink_to(elsewhere)
    return told


def older(told: names.Told) -> names.Told:
    return folders.publish(FOLDER, told.run, 1, named(loaded().named_parameters()))


def foreign(told: names.Told) -> names.Told:
    return folders.publish(FOLDER, "run-foreign", told.version, named(loaded().named_parameters()))


def another_model(told: names.Told) -> names.Told:
    return folders.publish(FOLDER, told.run, told.version + 1, named([("model.norm.weight", torch.ones(256))]))


def digest(told: names.Told) -> names.Told:
    return replace(told, digest="0" * 64)


FAULTS: list[Callable[[names.Told], names.Told]] = [
    torn, changed, planted, linked, older, foreign, another_model, digest,
]  # fmt: skip


def tried(sync: Sync, told: names.Told) -> str:
    """Have the sampler verify, and then load without that; returns the reason of the first, if the second fails too."""
    try:
        sync._drive(told)
    except Ended as reason:
        with sync.server.paused():
            try:
                sync.server.load(told)
            except Exception:  # noqa: BLE001  # any will do
                return str(reason)
    return "served"


def main() -> None:
    """Serve version 2, then hurt version 3 in each way, then serve it."""
    sync = Sync(URL, Settings(FOLDER, deadline=300, lease=300), refused)
    sync.open()
    served, sent = loaded(), loaded()
    shaken(served)
    for _ in range(2):
        sync.send(named(served.named_parameters()))
    tokens = [(37 * number + 11) % 250 for number in range(40)]
    probe = Probe(sync, tokens)
    print(json.dumps({"fault": None, "served": probe.difference(served), "sent": probe.difference(sent)}), flush=True)
    try:
        sync.server.bind("run-other")
    except Held as reason:
        print(json.dumps({"fault": "taken", "reason": str(reason), "state": sync.server.state()}), flush=True)
    for fault in FAULTS:
        shutil.rmtree(FOLDER / sync.run / names.folder_of(3), ignore_errors=True)
        shutil.rmtree(FOLDER / sync.run / names.folder_of(1), ignore_errors=True)
        told = fault(folders.publish(FOLDER, sync.run, 3, named(sent.named_parameters())))
        reason = tried(sync, told)
        found = {"served": probe.difference(served), "sent": probe.difference(sent), "state": sync.server.state()}
        print(json.dumps({"fault": fault.__name__, "reason": reason, **found}), flush=True)
    shutil.rmtree(FOLDER / sync.run / names.folder_of(3), ignore_errors=True)
    sync.send(named(sent.named_parameters()))
    found = {"served": probe.difference(served), "sent": probe.difference(sent), "state": sync.server.state()}
    print(json.dumps({"fault": "none", **found}), flush=True)
    sync.close()
    print(json.dumps({"fault": "end", "left": sorted(str(each) for each in FOLDER.glob(f"{sync.run}*"))}), flush=True)


if __name__ == "__main__":
    main()
