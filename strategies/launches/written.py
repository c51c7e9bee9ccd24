"""Written: what a job itself writes about how its nodes meet, in the flags of a launch and in the env around it.

Untold: launches of torch in a runtime whose plugin of Trainer sets no PET_*, or in a JobSet without a label.

Every node of such a job runs the command, and torchrun knows neither how many they are nor where they meet, unless
its flags say so (trainer `plugins/{jax,xgboost,plainml}`; torch `torch/distributed/run.py`). Runtimes of
MPI with several nodes are in `slots`; what flux starts is not known.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from muster.strategies.documents import model, names, pods
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, counts, expansions, quotes, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["LOOPBACK", "REFERENCE", "Seen", "Written", "check"]


REFERENCE = r"\$\(([A-Za-z_]\w*)\)"
"""How a text names a variable, as Kubernetes and the reader of shells write it."""
LOOPBACK = r"\s*(localhost|127(\.\d+){1,3}|\[?::1\]?|0\.0\.0\.0|0)(:\d+)?\s*"
"""The pod itself, with or without a port."""
_OF_ONE_POD = frozenset({"HOSTNAME", "RANDOM", "SRANDOM", "BASHPID", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME"})
"""Variables of a shell, or of every container, that differ from pod to pod."""
_JOBSET_NAME = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
_OWN_FIELDS = ("status.podIP", "status.hostIP", "metadata.name", "metadata.uid", "spec.nodeName")
_OWN_COMMANDS = (
    r"\$\(\([^)]{0,80}\bS?RANDOM\b|"
    r"\$\(\s*(uuidgen|ip |ifconfig|shuf (?![^)]{0,200}--random-source)|"
    r"uname (?:-n|--nodename)\s*\)|(?:cat|<) */etc/hostname\s*\)|cat /proc/sys/kernel/(?:hostname|random/uuid)\s*\)|"
    r"hostname\b(?!\s*(?:(?:-[fs]|--fqdn|--short)\s*)?\|)|"  # cut, it may become the name of pod 0
    r"date\b(?!\s+\+[\"']?[-_%YmdFjyGV]+[\"']?\s*\)))"
)
_INDEX = r"\$?[({]*(?:JOB_COMPLETION_INDEX|PET_NODE_RANK)[)}]*"
_SHIFTED = rf"\$\(\( *(?:{_INDEX} *\+ *([1-9]\d{{0,5}})|([1-9]\d{{0,5}}) *\+ *{_INDEX}) *\)\)"
"""The index of a pod with a number added to it."""


class Written(Struct, frozen=True):
    """A value that decides how nodes meet: where its field is told, how it is shown, and its text."""

    place: Callable[[], str]
    shown: str
    text: str

    @property
    def field(self) -> str:
        """The field path, which only a finding needs."""
        return self.place()

    @property
    def is_unset(self) -> bool:
        """Whether the launch takes the variable away, so that its reader uses 0."""
        return not self.text


class Seen:
    """The env of a job with the place of each entry; `meetings` are those of its launches that were read."""

    def __init__(self, job: Job, site: Site, place: pods.Place, nodes: int) -> None:
        self.job, self.site, self.place, self.nodes = job, site, place, nodes
        self.meetings: dict[int, Any] = {}

    @functools.cached_property
    def texts(self) -> str:
        """The texts of all variables, one behind the other."""
        return "\n".join(map(str, filter(None, self.site.values.values())))

    def entry(self, name: str) -> model.EnvVar | None:
        """Return the entry of a variable; None for one that Trainer writes over."""
        if self.job.kind == "TrainJob" and name in names.RESERVED_ENV:
            return None  # Trainer writes its own over it, or refuses the job
        return self.site.variables.get(name)

    def variable(self, launch: Launch | None, name: str) -> Written | None:
        """Return the literal value of a variable as the launch sees it."""
        if launch is not None and name in launch.env:
            text = launch.env[name]
            return None if text is None else Written(lambda: f"{self.site.place}.command", f"{name}={text}", text)
        entry = self.entry(name)
        text = entry.literal if entry else None
        return None if text is None else Written(partial(self.where, name), text, text)

    def where(self, name: str) -> str:
        """Return the field path of a variable."""
        return sites.locate_variable(self.job, self.site, name)

    def field_path(self, name: str) -> str:
        """Return the field of the pod from which a variable is read, "" for none."""
        entry = self.entry(name)
        return entry.field_path if entry else ""

    def setting(self, launch: Launch, option: str) -> Written | None:
        """Return what torchrun reads for an option: its flag, else its PET_* variable."""
        if option in launch.values:
            text = self.defaulted(launch.values[option])
            place = partial(self.site.locate_option, launch, option)
            return Written(place, f"--{option} {launch.values[option]}", self.expand(text))
        found = self.variable(launch, f"PET_{option.upper()}")
        return None if found is None else Written(found.place, found.shown, self.expand(found.text))

    def expand(self, text: str) -> str:
        """Replace each variable of the container whose value is literal, or is the name or the namespace of the job."""

        def known(found: re.Match[str]) -> str:
            value = self.variable(None, found[1])
            if value is not None:
                return value.text
            path = self.field_path(found[1])
            own = self.job.name if path == _JOBSET_NAME else self.job.namespace if path == "metadata.namespace" else ""
            return own or found[0]

        return re.sub(REFERENCE, known, text) if "$" in text else text

    def defaulted(self, text: str) -> str:
        """Take the defaults of variables that nothing sets; see `muster.strategies.launches.expansions`."""
        if "${" not in text or self.place.container.env_from:
            return text
        every = {name: self.variable(None, name) for name in self.site.variables}
        env = {name: value.text if value is not None else None for name, value in every.items()}
        return expansions.take_defaults(text, env)[0]

    def reference(self, launch: Launch, name: str) -> str:
        """Return what a variable holds where it is read from elsewhere, as `$(NAME)`; else its text, "" for none."""
        entry = self.entry(name) if name not in launch.env else None
        if entry is not None and entry.literal is None:
            return f"$({name})"
        found = self.variable(launch, name)
        return "" if found is None else found.text

    def source(self, text: str) -> str:
        """Return the `fieldPath` of which a text is the value, "" where it is something else."""
        found = re.fullmatch(REFERENCE, self.expand(text.strip()))
        if found is None:
            return ""
        is_index = found[1] == "JOB_COMPLETION_INDEX" and self.entry(found[1]) is None
        return names.COMPLETION_INDEX_FIELD if is_index else self.field_path(found[1])

    def is_of_one_pod(self, text: str) -> bool:
        """Whether a value differs from pod to pod: its name, its address, a random number."""
        if re.search(_OWN_COMMANDS, text) or "$$" in text:
            return True
        return any(name in _OF_ONE_POD or self.field_path(name) in _OWN_FIELDS for name in re.findall(REFERENCE, text))

    def is_shifted(self, text: str) -> str:
        """Return the number that is added to the index of each pod of the only Job of a training, "" for none."""
        found = re.fullmatch(_SHIFTED, text) if "$((" in text else None
        if found is None or len(self.site.reading.launches) > 1:
            return ""
        several = self.job.kind == "JobSet" and (len(self.job.world) > 1 or self.place.job.jobs > 1)
        return "" if several else found[1] or found[2]

    def is_a_name(self, text: str) -> bool:
        """Whether a value is a name or an address of the pod, whole."""
        found = re.fullmatch(REFERENCE, text)
        if found is None:
            return text == "$( hostname )"
        return found[1] == "HOSTNAME" or self.field_path(found[1]) in _OWN_FIELDS


_JUDGED = frozenset(
    {Launcher.TORCHRUN, Launcher.ACCELERATE, Launcher.TRL, Launcher.TUNE, Launcher.DEEPSPEED, Launcher.COMPOSER}
    | {Launcher.FABRIC}
)


def check(job: Job) -> Iterator[Finding]:
    """Compare the launches of such a TrainJob with its nodes and devices, and of either how its nodes meet."""
    runtime = job.runtime
    if not job.is_untold or runtime is None:
        return
    if runtime.is_unlabelled or job.container is None:
        return
    if runtime.policy.torch is not None or runtime.policy.flux is not None:
        return
    if runtime.policy.mpi is not None and topologies.pods_of(job) > 1:
        return
    site = sites.find_site(job) if not job.container.container.env_from else None  # it may hold PET_*
    if site is None or not any(each.launcher in _JUDGED for each in site.reading.launches):
        return
    apart = all("standalone" in each.values for each in site.reading.launches)  # each node may train its own
    for finding in counts.compare(job) if job.kind == "TrainJob" else ():  # a strategy compares a JobSet
        lower = apart and finding.rule == "core/nodes"
        yield dataclasses.replace(finding, severity=Severity.WARNING) if lower else finding
    if topologies.pods_of(job) > 1:
        seen = Seen(job, site, job.container, topologies.pods_of(job))
        for launch in site.reading.launches:
            yield from addresses.check(seen, launch) if job.kind == "TrainJob" else ()  # as above
            if launch.launcher is Launcher.TORCHRUN and len(job.world) == 1:  # parts may have ranks of their own
                yield from _meeting(seen, launch)


def _meeting(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Report nodes that a launch counts and gives no address or no rank."""
    low, colon, high = _setting(seen, launch, "nnodes").partition(":")
    if "standalone" in launch.values or (whole(high if colon else low) or 0) < 2:
        return
    job = seen.job
    report = error if launch.certain and not job.is_untouched else warning  # somebody else may set them
    where, shown = seen.site.locate_option(launch, "nnodes"), quotes.launch(launch)
    who, cure = "Trainer sets none in this runtime", "use a runtime with mlPolicy.torch"
    if job.is_untouched:
        who, cure = "Muster adds none without the label of a framework", f"add the label {names.FRAMEWORK_LABEL}"
    meeting = addresses.find(seen, launch)
    if meeting.address is None:
        message = (
            f"names no address, and {who}, so each node would wait for the others in its own pod; add --rdzv_endpoint, "
            f"or {cure}"
        )
        yield report(where, shown, message, rule="core/nodes")
    elif meeting.kind in ("", "static") and not _setting(seen, launch, "node_rank"):
        message = (
            f"gives every node the rank 0, because {who}; add --node_rank $(JOB_COMPLETION_INDEX), or --rdzv_backend "
            "c10d"
        )
        yield report(where, shown, message, rule="core/fixed-rank")


def _setting(seen: Seen, launch: Launch, option: str) -> str:
    """Return what torchrun reads for an option: its flag, else its PET_* variable; "" for none."""
    found = seen.setting(launch, option)
    return found.text if found is not None else seen.reference(launch, f"PET_{option.upper()}")
