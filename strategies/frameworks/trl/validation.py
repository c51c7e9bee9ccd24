"""Validation of a training script's own arguments, before a pod with GPUs starts and fails.

What flags need and exclude is data (`rows.toml` of upstream/trl); here is what TRL's parser itself refuses. What
Muster cannot see (`$(NAME)`, a `--config` file) is never checked, nor is a flag that could be in such a file.

TRL saves checkpoints while it trains, and the model at its end (trl `trl/scripts/sft.py`), so that a folder which
cannot be written costs hours. Kubernetes mounts a ConfigMap, a Secret, a projected, a downward API and an image volume
read-only, whatever `readOnly` says ("Volumes"). `trl vllm-serve` hands its sizes to `vllm serve` (trl
`trl/scripts/vllm_serve.py`, build_command).

The settings of one TRL training as rows see them: typed as TRL's parser does, with the defaults of the method.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.strategies.documents import pods
from muster.strategies.documents.findings import Finding, Severity, beginning, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.frameworks.trl import conflicts, flags
from muster.strategies.frameworks.trl.invocations import Form, Invocation
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology
from muster.strategies.rules import UNKNOWN, Value, from_json, judge, load, member

__all__ = ["Circumstances", "TrainingSettings", "check", "check_output", "check_server", "check_within"]


_GUESSES = 6
"""Unknown flags for which a known one is suggested: each costs half a millisecond, and a JobSet may have thousands."""
_TOLD = 100
"""Unknown flags of one command line that are told one by one."""
_LONGEST_PATH = 4_096  # characters, as Linux takes them
_SERVE_MODULE = "trl.scripts.vllm_serve"
_SIZES = ("tensor_parallel_size", "data_parallel_size")
_PLACED = "distributed_executor_backend"
_BY_VERSION = frozenset(
    {"trl/unknown-flag", "trl/arguments", "trl/required", "trl/generations", "trl/vllm-size", "trl/contradiction"}
    | {"trl/word", "trl/vllm-cpu"}
)
"""Rules that hold for the version of TRL from which the flags were read, but perhaps not for another."""


class Circumstances(Struct, frozen=True):
    """What the checks know beside the arguments.

    Attributes:
        topology: topology of the job, with torchrun's own flags applied.
        ranks: returns the number of processes of the training, None when it is not known.
        own_image: whether the image is the user's, with an unknown version of TRL.
        alone: whether no other container of the pod could hold a server.
        brings_keys: whether something that Muster cannot read may give the container keys of services; None: not asked.
    """

    topology: Topology
    ranks: Callable[[], int | None] = lambda: None
    own_image: bool = False
    alone: bool = True
    brings_keys: bool | None = None


def check(found: Invocation, parsed: flags.ParsedArgs, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about the arguments of one invocation, which are the last words of the command line."""
    settings = TrainingSettings(found, parsed, site, _facts(found, parsed, around), around.ranks)
    for finding in _found(found, parsed, settings):
        doubtful = around.own_image and finding.rule in _BY_VERSION and finding.severity is Severity.ERROR
        yield dataclasses.replace(finding, severity=Severity.WARNING) if doubtful else finding


def check_within(found: Invocation, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about an invocation that was read in a shell's text or behind wrappers.

    A word with a `$` is known only in the pod, in whatever notation a shell has for it.
    """
    args = tuple(word if "$(" in word else word.replace("$", "$(?)") for word in found.args)
    around = replace(around, own_image=around.own_image or not found.installed)
    found = replace(found, args=args)
    parsed = flags.parse(found.method, args)
    if site.argv[: len(found.head)] != found.head:
        yield from conflicts.check_within(found, parsed, site)
    yield from check(found, parsed, site, around)


def _facts(found: Invocation, parsed: flags.ParsedArgs, around: Circumstances) -> dict[str, Value]:
    """Return what rows may ask; `launched` is whether something that starts several processes starts the script."""
    plain = found.form is Form.MODULE or (found.form is Form.TRL and not parsed.launcher and not parsed.config_file)
    return {
        "method": found.method,
        "program": found.is_program,
        "launched": not plain,
        "on_cpu": around.topology.on_cpu,
        "distributed": around.topology.is_distributed,
        "alone": around.alone,
        "brings_keys": UNKNOWN if around.brings_keys is None else around.brings_keys,
    }


def _found(found: Invocation, parsed: flags.ParsedArgs, settings: TrainingSettings) -> Iterator[Finding]:
    yield from _unreadable(found, parsed, settings)
    yield from _misplaced(found, parsed, settings)
    yield from judge(load("trl"), settings)


def _unreadable(found: Invocation, parsed: flags.ParsedArgs, where: TrainingSettings) -> Iterator[Finding]:
    for number, (index, token) in enumerate(parsed.unknown[:_TOLD]):
        if token == flags.CONFIG:
            continue  # the second; `conflicts` tells of both
        meant = flags.closest(found.method, token) if number < _GUESSES else None
        hint = f"; did you mean {meant}?" if meant else "; remove it"
        message = f"is not a flag of {found.called} (trl {flags.version()}){hint}"
        yield error(where.token(index), token, message, rule="trl/unknown-flag")
    for index, token in parsed.unknown[_TOLD : _TOLD + 1]:
        others = len(parsed.unknown) - _TOLD
        message = f"is the first of {others} more words that are not flags of {found.called}; remove them"
        yield dataclasses.replace(error(where.token(index), token, message, rule="trl/unknown-flag"), stands_for=others)
    for fault in parsed.faults:
        message = f"{found.called} would not start: this argument {fault.reason}"
        yield error(where.token(fault.index), fault.token, message, rule="trl/arguments")
    flag, last = "", -1
    for index, token in parsed.positionals:
        message = f"does not belong to a flag, and {found.called} takes no other arguments; remove it"
        flag, last = flag if index == last + 1 else _split_off(found, index), index
        if flag:
            message = (
                f"is none of the values of {flag}, which takes one behind its =; write {flag} and each value as list "
                "entries of their own, and mind that YAML splits an entry at a comma between [ and ]"
            )
        elif token.startswith("-") and " " in token:
            message = "reaches the program as one word; write each flag and each value as a list entry of its own"
        yield error(where.token(index), token, message, rule="trl/arguments")


def _split_off(found: Invocation, index: int) -> str:
    """Return the flag of several values, written with =, right behind which a word stands; "" for any other word."""
    name, equals, _ = found.args[index - 1].partition("=") if index else ("", "", "")
    spec = flags.spec(found.method, name) if equals else None
    return name if spec is not None and spec.nargs == "+" else ""


def _misplaced(found: Invocation, parsed: flags.ParsedArgs, where: TrainingSettings) -> Iterator[Finding]:
    if found.form in (Form.TORCHRUN, Form.MODULE, Form.ACCELERATE):
        for index, token in parsed.launcher:
            message = "is a flag of accelerate launch, and the training script does not know it; remove it"
            yield error(where.token(index), token, message, rule="trl/launcher-flag")


# --- the pod ----------------------------------------------------------------------------------------------------------


def check_output(job: Job, folder: object, field: str) -> Iterator[Finding]:
    """Yield what keeps a training from writing into its output folder.

    Args:
        job: the job.
        folder: value of `--output_dir`; one that is not a text, or known only in the pod, is not judged.
        field: field path of the flag.
    """
    if job.container is None or not isinstance(folder, str) or "$" in folder or len(folder) > _LONGEST_PATH:
        return
    container = job.container.container
    path = posixpath.normpath(posixpath.join(container.working_dir, folder))
    if not path.startswith("/"):
        return
    mount = pods.holding(path, job.container.container.volume_mounts)
    shown = f"--output_dir {folder}"
    if mount is None:
        message = ""
        if container.security_context.read_only_root_filesystem:
            message = (
                "no volume is mounted there, and readOnlyRootFilesystem lets nothing be written elsewhere; mount one"
            )
        elif pods.holds("/root", path) and (job.container.user or 0) > 0:
            message = (
                "the home of root is closed to the user as whom the container runs; mount a volume, and write there"
            )
        if message:
            yield warning(field, shown, message, rule="trl/output")
        return
    why = pods.why_fixed(mount, job.container.pod.volumes)
    if why:
        message = f"the volume at {mount.mount_path} {why}, and TRL cannot save there; use a volume that can be written"
        yield error(field, shown, message, rule="trl/output")


def check_server(job: Job, site: Site) -> Iterator[Finding]:
    """Refuse a server whose sizes need more GPUs than its pod has."""
    for launch in site.reading.launches:
        if _serves(launch):
            given = dict(_given(launch.rest))
            sizes = [whole(given.get(name, "1")) for name in _SIZES]
            count = topologies.read_topology(job).devices.count
            wanted = 0 if None in sizes or _PLACED in given else math.prod(size or 0 for size in sizes)
            if count and wanted > count:
                message = (
                    f"asks for {wanted} GPUs (tensor x data parallel), and the pod has {count}, so vLLM would not "
                    "start; lower one of the sizes"
                )
                report = error if launch.certain else warning
                yield report(f"{site.place}.command", wanted, message, rule="trl/vllm-size")


def _serves(launch: Launch) -> bool:
    if launch.launcher is Launcher.TRL:
        return launch.target == "vllm-serve"
    return launch.launcher is Launcher.PYTHON and launch.module and launch.target == _SERVE_MODULE


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags of a command line with their values; of one that stands twice, the last counts."""
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name.replace("-", "_"), value if equals else following


_SHOWN, _LONGEST = 40, 18
_NUMBERS: Mapping[str, Callable[[str], int | float]] = {"int": int, "float": float}


class TrainingSettings:
    """A view (`muster.strategies.rules.View`) of one invocation; its arguments are the last words of the command line.

    Args:
        found: the invocation.
        parsed: its arguments.
        site: where the command line is written.
        facts: what rows may ask beside the flags: `method`, `on_cpu`, ….
        ranks: returns the number of processes of the training, the fact `world`; None when it is not known.

    Attributes:
        written: the flags that the arguments give, and `env.NAME` of each variable of the container.
    """

    def __init__(
        self,
        found: Invocation,
        parsed: flags.ParsedArgs,
        site: Site,
        facts: Mapping[str, Value],
        ranks: Callable[[], int | None],
    ) -> None:
        self._found, self._parsed, self._site, self._facts, self._ranks = found, parsed, site, facts, ranks
        self._offset = len(site.argv) - len(found.args)
        self._is_last = site.argv[self._offset :] == found.args
        self._hidden = parsed.config_file is not None or bool(parsed.opaque)
        self.value = functools.cache(self._value)
        self.written = dict.fromkeys((*parsed.values, *(f"env.{name}" for name in site.values)))

    def _value(self, name: str) -> Value:
        first, dot, path = name.partition(".")
        if name in self._parsed.values:
            return self._typed(name, self._parsed.values[name])
        if name in self._facts:
            return self._facts[name]
        if first == "env":
            text = self._site.values.get(path, "")
            return UNKNOWN if text is None or "$(" in text else text
        if dot:
            return member(self.value(first), path)
        return self._ranks() or UNKNOWN if name == "world" else self._default(name)

    def _default(self, name: str) -> Value:
        spec = flags.spec(self._found.method, f"--{name}")
        return UNKNOWN if spec is None or self._hidden else spec.default

    def _typed(self, name: str, raw: flags.Value) -> Value:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, list):
            found = [self._typed(name, each) for each in raw]
            return UNKNOWN if UNKNOWN in found else found
        spec = flags.spec(self._found.method, f"--{name}")
        kind, _, none = spec.kind.partition("|") if spec else ("str", "", "")
        if none and raw.lower() in {"none", "null"}:
            return None
        if "$" in raw or kind not in _NUMBERS:
            return UNKNOWN if "$" in raw else from_json(raw)
        try:
            return _NUMBERS[kind](raw) if len(raw) <= _LONGEST else UNKNOWN
        except ValueError:  # the parser refuses it, which is said of the word itself
            return UNKNOWN

    def shown(self, name: str, value: Value) -> object:
        """Return the flag as it is written, None for one that is not."""
        if name not in self._parsed.values:
            return None
        given = self._parsed.values[name]
        if isinstance(given, bool):
            return f"--{name}" if given else f"--{name} false"
        text = value if isinstance(given, list) and isinstance(value, str) else given
        return f"--{name} {beginning(' '.join(text) if isinstance(text, list) else text, _SHOWN)}"

    def field(self, name: str) -> str:
        """Return the field path of a flag."""
        index = self._parsed.places.get(name)
        if index is not None:
            return self.token(index)
        return f"{self._site.place}.{'args' if self._is_last or not self._site.command else 'command'}"

    def token(self, index: int) -> str:
        """Return the field path of a word of the arguments: in a shell's text, of the word that holds the text."""
        if self._is_last:
            return self._site.locate(self._offset + index)
        holding = (place for place, word in enumerate(self._site.argv) if self._found.args[index] in word)
        return self._site.locate(next(holding, 0))
