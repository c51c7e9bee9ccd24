"""Startups: what a container ends at, or never starts with, whatever its program is.

The kernel executes a file with an execute bit, and hands it all other words (Kubernetes: the entrypoint "is not
executed within a shell"). Files of a ConfigMap, Secret, projected or downwardAPI volume have the mode 0644 unless the
volume says otherwise (core/v1, `defaultMode`), not even root can execute them, and they belong to root; fsGroup makes
them readable for the group of the pod (kubernetes `pkg/volume/util/atomic_writer.go`,
`pkg/volume/volume_linux.go` SetVolumeOwnership). The kubelet starts no user root where runAsNonRoot forbids it
(`pkg/kubelet/kuberuntime/security_context_others.go` verifyRunAsNonRoot); the Dockerfiles of `_OF_ROOT` name no USER.

torchrun makes a folder in the temporary directory before it starts anything, unless `--log-dir` names another or
/dev/null (torch `distributed/elastic/multiprocessing/api.py` DefaultLogsSpecs). The temporary directory is the
first that can be written of TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the working directory (CPython `tempfile`).
`accelerate launch` of several processes is a torchrun (accelerate `commands/launch.py`). vLLM asks for the
temporary directory whatever VLLM_RPC_BASE_PATH says (vllm `envs.py`).

Images: references that no container runtime can read, so that the kubelet never starts the container. The API server
takes any text, and the kubelet then waits with InvalidImageName. Source: github.com/distribution/reference v0.6.0
`regexp.go` and `normalize.go` splitDockerDomain, ParseNormalizedNamed.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from muster.strategies import shell
from muster.strategies.documents import pods
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.model import (
    Container,
    EnvVar,
    Files,
    PodSpec,
    SecurityContext,
    Trainer,
    Volume,
    VolumeMount,
)
from muster.strategies.documents.paths import Path
from muster.strategies.documents.quantities import whole
from muster.strategies.launches import launches, readings
from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["ROOT", "Fault", "Start", "faults", "is_root", "wrong_image"]


Fault = tuple[Path, Any, str, str, Severity]
"""Place inside the container, value, message, rule and severity."""

_ONE_WORD = (
    "is the name of one program for the kernel, and there is none of this name; write each word as an entry of its own",
    "core/command-word",
    True,
)
_MODE, _EXECUTE, _OTHERS, _GROUP = 0o644, 0o111, 0o004, 0o040
_LONGEST, _LONGEST_WORD = 4_096, 200  # characters of a path, a first word
_MOST, _MOST_FILES = 256, 64  # words
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "ulimit", "umask", "pushd", "eval", "exec", "trap"})
_PREPARING = frozenset({"pip", "pip3", "apt-get", "apt", "mkdir", "huggingface-cli", "hf", "nvidia-smi"})
_OPERATORS = frozenset({"&&", "||", "2>&1"})
"""Words that are no value of a flag; `|` or `;` may be one."""
_DASHES = r"[\u2010-\u2015\u2212][-\u2010-\u2015\w]"
"""A word that begins with a dash of a text editor where a flag begins with a hyphen."""
_OF_ROOT = frozenset({"pytorch/pytorch", "nvidia/cuda", "nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/cuda"})
_FOLDERS = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  # compared with mounts, never written
ROOT = "user 0 is root, and runAsNonRoot forbids it, so the kubelet never starts the container; correct one of the two"


class Start(NamedTuple):
    """How a container starts: a pod, one of its containers, and what a TrainJob writes over it.

    Attributes:
        pod: the pod spec.
        container: as the pod has it.
        own: `spec.trainer`, where that is about this container; else empty.
    """

    pod: PodSpec
    container: Container
    own: Trainer = Trainer()

    @property
    def command(self) -> Sequence[str]:
        """`command`, as it will be."""
        return (self.container.command or ()) if self.own.command is None else self.own.command

    @property
    def args(self) -> Sequence[str]:
        """`args`, as they will be."""
        return (self.container.args or ()) if self.own.args is None else self.own.args

    @property
    def context(self) -> SecurityContext:
        """The security context of the pod, and that of the container over it."""
        return self.container.security_context.over(self.pod.security_context)

    def volume(self, path: str) -> Volume:
        """Return the volume that holds a path; one without a source where none does."""
        is_path = path.startswith("/") and len(path) <= _LONGEST
        mount = pods.holding(path, self.container.volume_mounts) if is_path else None
        return Volume() if mount is None else pods.volume(mount, self.pod.volumes)


def faults(start: Start) -> Iterator[Fault]:
    """Yield what keeps a container from its start, or ends it there."""
    container = start.container
    secured = start.context != SecurityContext()
    folder, image = container.working_dir, start.own.image or container.image
    wrong = wrong_image(image) if image == image.strip() else ""
    if wrong:
        yield ("image",), image, f"the kubelet never starts this container: {wrong}", "core/image", Severity.ERROR
    if folder and not folder.startswith("/"):  # OCI runtime-spec config.md, process.cwd
        message = "is not an absolute path, so the container runtime never starts the container; begin it with /"
        yield ("workingDir",), folder, message, "core/working-dir", Severity.ERROR
    if secured:
        yield from _of_user(start, image)
    argv = [*start.command, *start.args]
    if not start.command:
        return
    found = [*_words_of(argv, start)]
    if _is_one_word(argv[0]):
        found.append((0, *_ONE_WORD))
    if secured and container.volume_mounts:
        found += _unreadable(argv, start)
    count = len(start.command)
    for index, message, rule, certain in found:
        place: Path = ("command", index) if index < count else ("args", index - count)
        yield place, argv[index], message, rule, Severity.ERROR if certain else Severity.WARNING
    message = _read_only(start, argv) if secured and start.context.read_only_root_filesystem else ""
    if message:
        yield ("securityContext", "readOnlyRootFilesystem"), True, message, "core/read-only-root", Severity.WARNING


def is_root(context: SecurityContext) -> bool:
    """Whether a security context names the user root and forbids it."""
    return context.run_as_non_root is True and context.run_as_user == 0


def _is_one_word(first: str) -> bool:
    """Whether a word holds a launcher, an interpreter or a shell and its arguments."""
    words = first[:_LONGEST_WORD].split()
    if len(words) < 2 or words[0] == first:
        return False
    return launches.parse(tuple(words)).launcher not in (Launcher.OTHER, Launcher.NONE)


def _of_user(start: Start, image: str) -> Iterator[Fault]:
    context, own = start.context, start.container.security_context
    if is_root(context) and own.run_as_user is not None:
        yield ("securityContext", "runAsUser"), own.run_as_user, ROOT, "core/security-context", Severity.ERROR
    elif is_root(context) and own.run_as_non_root is not None:
        yield ("securityContext", "runAsNonRoot"), own.run_as_non_root, ROOT, "core/security-context", Severity.ERROR
    if context.run_as_non_root and context.run_as_user is None:
        name = image.partition("@")[0].removeprefix("docker.io/")
        head, colon, tag = name.rpartition(":")
        if (head if colon and "/" not in tag else name) in _OF_ROOT:
            message = "the image runs as root, and runAsNonRoot forbids it, so the container never starts"
            yield ("image",), image, f"{message}; name a runAsUser", "core/root-image", Severity.WARNING


_Word = tuple[int, str, str, bool]
"""The word of a command line, what is wrong, the rule, and whether it certainly fails."""


def _words_of(argv: Sequence[str], start: Start) -> Iterator[_Word]:
    first = argv[0]
    name = launches.program(first)
    if re.match(_ASSIGNMENT, first) or first in _BUILTINS:
        what = "is a command of a shell" if first in _BUILTINS else "sets a variable as a shell would"
        message = f"{what}, and a container starts its program without one; write [bash, -c, TEXT]"
        yield 0, message, "core/no-shell", True
        return
    if start.container.volume_mounts and _lacks_execute(start.volume(first)):
        message = (
            "is a file of a volume without an execute bit (mode 0644 by default), so it cannot be started; set "
            "defaultMode: 0755, or start it with its interpreter"
        )
        yield 0, message, "core/not-executable", True
    if not "".join(argv).isascii():
        message = "begins with a long dash, so no program takes it for a flag; write a hyphen (-)"
        dashed = (index for index, word in enumerate(argv[:_MOST]) if re.match(_DASHES, word))
        yield from ((index, message, "core/dash", False) for index in [*dashed][:1])
    if start.container.volume_mounts and name in launches.SHELLS:
        yield from _changed(argv, start)
    known = launches.parse(argv[:_MOST]).launcher not in (Launcher.OTHER, Launcher.NONE, Launcher.SHELL)
    operator = next((index for index, word in enumerate(argv[:_MOST]) if word in _OPERATORS), None)
    if operator is not None and (known or name in _PREPARING):
        message = f"reaches {name} as a word, because no shell is there to read it; start a shell: [bash, -c, TEXT]"
        yield operator, message, "core/no-shell", not known


def _changed(argv: Sequence[str], start: Start) -> Iterator[_Word]:
    """Report a `chmod` of a file that nobody can change, where the shell ends by its failure."""
    called = shell.invoked(argv)
    if called.text is None or "chmod" not in called.text or len(called.text) > shell.MAX_TEXT:
        return
    try:
        statements = shell.parse(called.text)
    except shell.Unreadable:
        return
    errexit = "errexit" in called.options
    for statement in statements:
        every = [shell.plain_words(each.parts[0]) if len(each.parts) == 1 else [] for _, each in statement.items]
        errexit = errexit or any(words[:1] == ["set"] and words[1:2] and "e" in words[1] for words in every)
        signs = {sign for sign, _ in statement.items[1:]}
        for words, following in zip(every, [*statement.items, None][1:], strict=True):
            ends = "||" not in signs and (following is not None or errexit)
            target = next((word for word in words[1:] if _files(start.volume(word))), None)
            if ends and words[:1] == ["chmod"] and target is not None:
                message = (
                    f"chmod changes no file of a ConfigMap or Secret ({target}), whose volume is read-only, and the "
                    "shell ends there; set defaultMode: 0755, or start the file with bash"
                )
                yield list(argv).index(called.text), message, "core/read-only-file", True
                return


def _files(volume: Volume) -> Files | None:
    """Return the source of a volume that holds files of objects of the API server, which nobody can change."""
    return volume.config_map or volume.secret or volume.projected or volume.downward_api


def _lacks_execute(volume: Volume) -> bool:
    source = _files(volume)
    if source is None:
        return False
    parts = [part for each in source.sources for part in (each.config_map, each.secret, each.downward_api) if part]
    modes = [source.default_mode or _MODE, *(item.mode for each in (source, *parts) for item in each.items)]
    return not any(mode & _EXECUTE for mode in modes if mode is not None)


def _unreadable(argv: Sequence[str], start: Start) -> Iterator[_Word]:
    """Yield the first word that is a file which the user of the container may not read."""
    context = start.context
    if not context.run_as_user or context.fs_group is not None:
        return
    for index, word in enumerate(argv[1:_MOST_FILES], start=1):
        source = _files(start.volume(word))
        if source is None or source.sources or any(each.mode is not None for each in source.items):
            continue
        mode = _MODE if source.default_mode is None else source.default_mode
        if not mode & _OTHERS and not (mode & _GROUP and not context.run_as_group):
            message = (
                f"belongs to root with the mode {mode:04o}, and the container runs as user {context.run_as_user}, "
                "which may not read it; write fsGroup into the securityContext of the pod, or defaultMode: 0444"
            )
            yield index, message, "core/unreadable-file", False
            return


def _read_only(start: Start, argv: Sequence[str]) -> str:
    """Return why what a container with a read-only root starts would stop, "" where it may not."""
    container = start.container
    launch = readings.read(argv).only
    program = _needing(launch) if launch is not None and not container.env_from else ""
    if launch is None or not program:
        return ""
    env = (*container.env, *start.own.env)
    logs = "" if launch.launcher is Launcher.VLLM else launch.values.get("log_dir") or _variable(launch, env, _LOGS)
    named = [logs, *(_variable(launch, env, name) for name in ("TMPDIR", "TEMP", "TMP"))]
    if any(each is None or "$" in each for each in named) or logs == "/dev/null":
        return ""
    folder = container.working_dir
    writable = [each for each in container.volume_mounts if not pods.why_fixed(each, start.pod.volumes)]
    folders = [*filter(None, named[1:]), *_FOLDERS, *([folder] if folder else [])]
    if logs:
        folders = [posixpath.join(folder, logs)]
    if any(_may_write(each, container, writable) for each in folders) or (writable and not folder and not logs):
        return ""
    if logs:
        return f"torchrun cannot make {logs}, the folder of its logs, and stops; mount a volume there"
    return f"{program} in /tmp when it starts, and nothing can be written; mount an emptyDir there"


_LOGS = "PET_LOG_DIR"


def _needing(launch: Launch) -> str:
    """Return what needs a folder, and for what; "" for a launch that may need none."""
    values = launch.values
    several = {"multi_gpu", "use_fsdp"} & set(values) or (whole(values.get("num_processes", "")) or 0) > 1
    if launch.starts_torchrun or (launch.launcher is Launcher.ACCELERATE and several):
        return "torchrun makes a folder of logs"
    return "vLLM makes its sockets" if launch.launcher is Launcher.VLLM and launch.target == "serve" else ""


def _variable(launch: Launch, env: Sequence[EnvVar], name: str) -> str | None:
    """Return the value of a variable, "" for none, None for one that only the pod knows."""
    if name in launch.env:
        return launch.env[name]
    entry = next((each for each in reversed(env) if each.name == name), EnvVar())
    return entry.value if entry.value_from is None else None


def _may_write(folder: str, container: Container, writable: Sequence[VolumeMount]) -> bool:
    """Whether a folder is on a volume that can be written; one that is relative to the image's may be."""
    found = pods.holding(posixpath.normpath(folder), container.volume_mounts)
    return not folder.startswith("/") or any(found is each for each in writable)


_LONGEST_IMAGE = 255  # characters of a repository with its domain
_LONGEST_REFERENCE = 600
_PLACEHOLDER = frozenset("${}()<>%")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,}"
_IMAGE_DOMAIN = r"[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?"


@functools.lru_cache(maxsize=256)  # jobs name the same few images
def wrong_image(reference: str) -> str:
    """Return what is wrong with the reference of an image, "" for nothing or for an empty one."""
    if not reference or len(reference) > _LONGEST_REFERENCE:
        return ""
    if not _PLACEHOLDER.isdisjoint(reference):
        return "Kubernetes does not fill in placeholders; write the name of an image"
    if "://" in reference:
        return "an image is named without a scheme; remove what stands up to ://"
    rest, at, digest = reference.partition("@")
    path, tag = _tagged(rest)
    if at and not re.fullmatch(_DIGEST, digest):
        return "what follows the @ is not a digest; write sha256: and 64 hexadecimal digits"
    if tag is not None and not re.fullmatch(_TAG, tag):
        return "what follows the last : is not a tag; use letters, digits, _ . and -"
    return _wrong_name(path)


def _wrong_name(path: str) -> str:
    """Judge the name of an image with its registry, without tag and digest."""
    first, slash, others = path.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first or first.lower() != first):
        if not re.fullmatch(_IMAGE_DOMAIN, first):
            return "what stands before the first / is not the address of a registry"
        path = others
    if path.lower() != path:
        return "the name of a repository has capital letters; write it in small letters"
    if len(path) > _LONGEST_IMAGE or not all(re.fullmatch(_COMPONENT, each) for each in path.split("/")):
        return "the name of a repository may have only small letters, digits and single separators . _ - /"
    return ""


def _tagged(text: str) -> tuple[str, str | None]:
    """Divide a reference without its digest into name and tag; the port of a registry is followed by a /."""
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, None)
