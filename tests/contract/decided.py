"""What Muster says of a launch, and the pods that would start."""

from dataclasses import dataclass

from muster.strategies.documents.findings import Severity
from muster.strategies.frameworks import builtin
from muster.strategies.trainer import predictions
from muster.webhook.admission.policies import Policy
from muster.webhook.cli import gathering
from muster.webhook.cli.cases import Setup
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.cluster.readers import Ref
from muster.webhook.kubeyaml.sources import Origin, Source
from tests.support import jobs
from tests.support.pods import pods

WORLD = "MUSTER_EXPECTED_WORLD_SIZE"


@dataclass(frozen=True)
class Said:
    """What Muster says of a launch, and the pods that would start."""

    severities: set[Severity]
    texts: list[str]
    told: str | None
    pods: list


def trainjob(words, *, nodes=2, gpus=0, processes=None, env=None, runtime="torch-distributed"):
    """The TrainJob of a command line."""
    limits = {"cpu": 4, **({"nvidia.com/gpu": gpus} if gpus else {})}
    more = {} if processes is None else {"numProcPerNode": processes}
    entries = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return jobs.make_trainjob(
        "train", runtime=runtime, metadata={"namespace": "default"}, command=words,
        numNodes=nodes, resourcesPerNode={"limits": limits}, **more, **({"env": entries} if entries else {}),
    )  # fmt: skip


def said(words, **asked):
    """Decide about the TrainJob, and about the JobSet that Trainer would make of it."""
    own = Source(Origin("runtimes"), jobs.make_runtime("tune", framework="torchtune"))
    setup = Setup([], [], gathering.gather([own]), Policy(registry=builtin.load()), "default")
    case = setup.decide(Source(Origin("launch"), trainjob(words, **asked)))
    predicted = predictions.predict(case.document, case.mutated.governor.runtime, case.namespace)
    cluster = Overlay(setup.cluster.reader)
    cluster.put(Ref("TrainJob", "default", "train"), case.document)
    following = setup.decide(Source(Origin("launch"), predicted.jobset), cluster)
    found = [*case.findings, *([] if case.refused else following.findings)]
    places = pods(following.document, "node")
    return Said({each.severity for each in found}, [str(each) for each in found], places[0].env.get(WORLD), places)
