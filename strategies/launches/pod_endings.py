"""Endings: findings about a shell that ends otherwise than the training, or the server, that it starts.

The kubelet sees the status of the container's first process alone. Where a shell loses the status of the launch, the
pod succeeds although the training failed, and no policy of Job, JobSet or Trainer starts it again. A pipe into `tee` is
so common that it is a note.

Restarts: one pod that starts again alone, while the others of its training wait for the one that has gone.

The kubelet starts a container again (restartPolicy: OnFailure), or the Job another pod (backoffLimit,
backoffLimitPerIndex, a podFailurePolicy that ignores a disruption), and only JobSet's failurePolicy starts all of them
again (jobset `pkg/controllers/failure_policy.go`; kubernetes `pkg/controller/job`). A static rendezvous
takes no member in later; torchrun's own store does, where the launch may restart its workers. JobSet makes
restartPolicy OnFailure, and a Job allows 6 restarts, where nobody says otherwise: that is so of almost every job, so
only what is written is noted.

Endless: containers whose program only waits or serves, and never ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from muster.strategies import shell
from muster.strategies.documents import paths, pods
from muster.strategies.documents.findings import Finding, beginning, error, note, warning
from muster.strategies.documents.model import ExitCodes
from muster.strategies.documents.paths import Path
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job, once
from muster.strategies.launches import launches, quotes, ranks, rendezvous, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.shell import Command, Loss, Scope

__all__ = ["Reader", "check", "check_restarts", "never_ends", "of_job", "runs_for_ever"]


_RULE = "core/lost-status"
_MESSAGES = {
    Loss.PIPE: (
        "the pod succeeds although this failed: a pipe ends with the status of its last command{by}; run the text with "
        "bash and begin it with `set -o pipefail`"
    ),
    Loss.OR: (
        "the pod succeeds although this failed: what follows || succeeds{by}; remove it, or let it end with `exit 1`"
    ),
    Loss.NEXT: (
        "the pod succeeds although this failed: the shell goes on, and ends with the status of what follows{by}; begin "
        "the text with `set -e`, or put && between them"
    ),
    Loss.LEFT: (
        "runs in the background, and the shell ends without waiting for it, which ends the container; remove the &, or "
        "end the text with `wait $!`"
    ),
}


def check(job: Job) -> Iterator[Finding]:
    """Report a command line that starts nothing, that never ends, or that ends without the status of its launch."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    for fault in site.reading.faults[:1]:
        place = site.locate_option(Launch(Launcher.NONE), "")
        yield error(place, beginning(" ".join(site.argv), 80), f"{fault}; correct the command", rule="core/no-start")
    for line, word in () if site.reading.faults else site.reading.torn[:1]:
        place = next((site.locate(index) for index, text in enumerate(site.argv) if re.search(_TORN, text)), site.place)
        what = quotes.flag(word) if word.startswith("-") else quotes.program(word)
        message = (
            f"is not an argument of the command before it, which ends in line {line} of the shell's text: a \\ "
            "continues a line only where the line ends directly behind it, and a comment ends the command; remove the "
            "comment or the blanks"
        )
        yield warning(place, what, message, rule="core/torn-line")
    if site.reading.launches and site.reading.launches[0].through:
        yield from _endless(job, site)
    lost = next((launch for launch in site.reading.launches if launch.lost is not None), None)
    if lost is None or lost.lost is None:
        return
    loss, program = lost.lost
    report = note if loss is Loss.PIPE else warning
    if loss is Loss.LEFT and not site.reading.unread:
        report = error
    message = _MESSAGES[loss].format(by=f" ({quotes.program(program)})" if program else "")
    yield report(site.locate_option(lost, ""), quotes.launch(lost), message, rule=_RULE)


_TORN = r"\\[ \t\r]"


def _endless(job: Job, site: Site) -> Iterator[Finding]:
    """Report a training behind which the container waits for ever, so that the pod never ends."""
    training = next((launch for launch in site.reading.launches if launch.launcher in _TRAINING), None)
    if training is not None and of_job(job).never_ends(site.argv):
        message = (
            "the container waits for ever behind it, so the job never completes and keeps its devices; end with the "
            "training, or keep the pods by ttlSecondsAfterFinished"
        )
        yield warning(site.locate_option(training, ""), quotes.launch(training), message, rule="core/endless-training")


_TRAINING = frozenset(Launcher) - {Launcher.VLLM, Launcher.RAY, Launcher.NONE, Launcher.OTHER, Launcher.SHELL}


_TOGETHER = frozenset(
    {Launcher.TORCHRUN, Launcher.TUNE, Launcher.ACCELERATE, Launcher.TRL, Launcher.COMPOSER, Launcher.FABRIC}
    | {Launcher.PYTHON, Launcher.DEEPSPEED}
)
"""Launchers of which each node starts its own; of the others one pod starts the processes of all."""
_Restart = tuple[Path, int | str, str]


def check_restarts(job: Job) -> Iterator[Finding]:
    """Note the first place where a job asks that one of its pods starts again without the others."""
    nodes = topologies.pods_of(job)
    for view in job.views if job.owner is None and not job.part and nodes > 1 else ():
        site, place = sites.find_site(view), view.container
        launch = site.reading.training if site is not None else None
        if site is None or place is None or launch is None or launch.launcher not in _TOGETHER:
            continue
        if _is_alone(place, launch) or _takes_back(view, site, launch):
            continue
        document, around = templates.find_spec(job)
        for inside, value, what in _restarts(place):
            cure = "FailJob" if value == "Ignore" else "restartPolicy: Never and backoffLimit: 0"
            message = (
                f"{what} starts again alone, and the rest of the {nodes} nodes wait in a rendezvous that admits no "
                f"member later, so the training stands still until all have ended; set {cure} there, and "
                f"{'.'.join(around)}.failurePolicy.maxRestarts, which starts all pods again"
            )
            found = note(paths.field(document, (*place.job_path, *inside)), value, message, rule="core/restart-alone")
            yield templates.placed(job, found)
            return


def _is_alone(place: pods.Place, launch: Launch) -> bool:
    return "standalone" in launch.values or launch.values.get("nnodes") == "1" or ranks.is_a_sweep(place, launch)


def _takes_back(job: Job, site: sites.Site, launch: Launch) -> bool:
    """Whether the nodes that are left form the group anew when one of them comes back."""
    values = site.values
    if rendezvous.choose(job, launch).kind != "c10d" and _setting(launch, values, "rdzv_backend") in ("", "static"):
        return False
    low, colon, high = _setting(launch, values, "nnodes").partition(":")
    return bool(whole(_setting(launch, values, "max_restarts"))) or bool(colon and low != high)


def _setting(launch: Launch, values: Mapping[str, str | None], option: str) -> str:
    return launch.values.get(option) or values.get(f"PET_{option.upper()}") or ""


def _restarts(place: pods.Place) -> Iterator[_Restart]:
    """Yield where a replicated job writes that one pod starts again: place inside it, value, and what starts again."""
    spec, inside = place.job.template.spec, ("template", "spec")
    limit, limit_of_one, rules = spec.backoff_limit, spec.backoff_limit_per_index, spec.pod_failure_policy.rules
    ends = any(each.action == "FailJob" and _is_every_failure(each.on_exit_codes) for each in rules)
    if place.pod.restart_policy == "OnFailure" and limit != 0:
        yield (*inside, "template", "spec", "restartPolicy"), "OnFailure", "a container that fails"
    elif limit_of_one is not None and not (limit_of_one == 0 and spec.max_failed_indexes == 0):
        yield (*inside, "backoffLimitPerIndex"), limit_of_one, "the pod of one index"
    elif limit and limit > 0 and not ends:
        yield (*inside, "backoffLimit"), limit, "a pod that fails"
    for index, rule in enumerate(rules):
        if rule.action == "Ignore":
            yield (*inside, "podFailurePolicy", "rules", index, "action"), "Ignore", "a pod that this rule meets"


def _is_every_failure(codes: ExitCodes | None) -> bool:
    """Whether a rule meets each container that fails."""
    return codes is not None and codes.operator == "NotIn" and codes.values in ((), (0,))


_MOST_READ = 65_536
_WORD = r"[^A-Za-z_]+"
_FOLLOWING = frozenset({"-f", "-F", "--follow", "--follow=name", "--follow=descriptor"})
_SERVERS = frozenset(
    {"tensorboard", "redis-server", "memcached", "prometheus", "node_exporter", "dcgm-exporter", "etcd", "aim"}
    | {"jupyter-lab", "jupyter-notebook", "code-server", "nvidia-smi-exporter", "dcgm_exporter"}
)
"""Programs that serve until they are stopped, whatever their arguments are but for those of `_ENDING`."""
_SUBCOMMANDS = {
    "jupyter": frozenset({"lab", "notebook", "server"}),
    "mlflow": frozenset({"server", "ui"}),
    "minio": frozenset({"server"}),
    "wandb": frozenset({"server"}),
}
_MODULES = frozenset({"http.server", "tensorboard.main", "jupyterlab", "notebook"})
_FOREGROUND = r"-[a-zA-Z]*D"
_ENDING = frozenset({"--help", "-h", "--version", "-v", "--daemonize", "-d", "daemonize", "--inspect"})


class Reader:
    """Says which containers of a job never end; it reads `_MOST_READ` characters of command lines that differ."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], bool] = {}
        self._room = _MOST_READ

    def never_ends(self, argv: tuple[str, ...]) -> bool:
        """Whether a command line certainly never ends by itself."""
        if argv not in self._known:
            self._room -= sum(map(len, argv)) + len(argv)
            self._known[argv] = self._room >= 0 and never_ends(argv)
        return self._known[argv]


@once
def of_job(_job: Job) -> Reader:
    """Return the reader of a job, which all checks share."""
    return Reader()


def never_ends(words: Sequence[str]) -> bool:
    """Whether a command line certainly never ends by itself; a shell's text is read."""
    if words and launches.program(words[0]) in launches.SHELLS:
        called = shell.invoked(words)
        if called.text is None or "trap" in called.text or "kill" in called.text:
            return False
        if _is_loop(called.text):
            return True
        found, why = shell.run(called.text, Scope())
        if _waits_for_a_server(called.text, found):
            return not why
        words = found[-1].words if found and not why and found[-1].certain else ()
    return bool(words) and runs_for_ever(words)


def _waits_for_a_server(text: str, found: Sequence[Command]) -> bool:
    """Whether a text ends with a `wait` for all that it started, among which is what serves for ever."""
    last = text.rstrip("; \n\t").rpartition("\n")[2].rpartition(";")[2].rpartition("&")[2]
    return last.strip() == "wait" and any(each.wave and each.words and _serves(each.words) for each in found)


def _serves(words: Sequence[str]) -> bool:
    return runs_for_ever(words) or (launches.program(words[0]) == "vllm" and list(words[1:2]) == ["serve"])


def runs_for_ever(words: Sequence[str]) -> bool:
    """Whether a command waits or serves for ever."""
    program, rest = launches.program(words[0]), words[1:]
    if program == "tail":
        following = any(word in _FOLLOWING or (word[:2] == "-f" and word[2:].isdigit()) for word in rest)
        return following and not any(word.startswith("--pid") for word in rest)
    if program == "sleep":
        return any(word.lower() in ("inf", "infinity") for word in rest)
    if not _ENDING.isdisjoint(rest):
        return False
    if program.startswith("python"):
        return len(rest) > 1 and rest[0] == "-m" and rest[1] in _MODULES
    if program in _SUBCOMMANDS:
        return bool(rest) and rest[0] in _SUBCOMMANDS[program]
    # sshd leaves a daemon behind and ends, unless it is told to stay in the foreground (sshd(8)).
    return program in _SERVERS or (program == "sshd" and any(re.match(_FOREGROUND, word) for word in rest))


def _is_loop(text: str) -> bool:
    """Whether a text ends with a loop without a condition, which nothing in it leaves."""
    start = max(text.rfind(f"while {word}") for word in ("true", ":", "[ 1 ]", "[[ 1 ]]"))
    body = text[start:].rstrip("; \n\t")
    words = set(re.split(_WORD, body)) if start >= 0 else set()
    return body.endswith("done") and bool(words) and not words & {"break", "exit", "return", "wait", "exec"}
