"""What tests of trl share: a job of two nodes with a GPU each, and the resources that change it."""

from __future__ import annotations

from tests.frameworks.builders import NEEDED, enforce, gpus, runtime, trainjob

METHOD = "muster.dev/trl-method"
TORCHRUN_SFT = ["torchrun", "-m", "trl.scripts.sft"]
TWO_NODES = {"numNodes": 2}


def enforced(command, trainer=None, *, args=NEEDED, annotations=None, name="job", **governing):
    """A TrainJob of two nodes with a GPU each, unless said otherwise."""
    own = {} if command is None else {"command": command.split() if isinstance(command, str) else command}
    document = trainjob(
        own | ({} if args is None else {"args": list(args)}) | (TWO_NODES if trainer is None else trainer),
        annotations=annotations,
        name=name,
    )
    return enforce("trl", document, runtime("trl", **({"resources": gpus(1)} | governing)))


ONE_GPU, FOUR_GPUS = {"resources": gpus(1)}, {"resources": gpus(4)}
CLAIM = {
    "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": 8}},
    "pod": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
}
