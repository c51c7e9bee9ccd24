"""Servers: a launch of vLLM's server as its flags and env describe it.

`vllm serve`, the module of the OpenAI server and that of the gRPC server take the same flags of the engine, and differ
in which model they serve and what they listen to (vLLM `entrypoints/cli/serve.py`, `entrypoints/launchers`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from muster.strategies.frameworks.vllm import serve_arguments
from muster.strategies.launches.expansions import resolve_own
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["PORT", "Form", "Server", "extended", "implied", "of_launch", "starts", "written_command"]

_MODULES = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.launchers.api_server.entry"})
_GRPC_MODULES = frozenset({"vllm.entrypoints.grpc_server", "vllm.entrypoints.launchers.grpc_server"})
_SPREAD = frozenset(
    {
        "data-parallel-address",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-multi-port-external-lb",
        "data-parallel-rank",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "headless",
        "master-addr",
        "nnodes",
        "node-rank",
    }
)
_TRUE = frozenset({"1", "true"})
_DIGITS = 9
_LAST_PORT = 65_535
PORT = 8000
"""Where `vllm serve` listens without `--port`."""
_BLANK = r"\s"


class Form(Enum):
    """What starts the server."""

    SERVE = "vllm serve"
    MODULE = "python -m vllm.entrypoints.openai.api_server"
    GRPC = "python -m vllm.entrypoints.grpc_server"


class Server(Struct, frozen=True):
    """One server.

    Attributes:
        form: what starts it.
        args: its arguments, as they are written.
        parsed: the same, read with the variables whose values are known.
        env: variables that it sees, as far as they are written; None for a value that cannot be read.
        certain: whether it is known to run, and once.
    """

    form: Form
    args: tuple[str, ...]
    parsed: serve_arguments.Parsed
    env: Mapping[str, str | None] = field(default_factory=dict)
    certain: bool = True

    @property
    def model(self) -> str | None:
        """Path or name of the model, None when the command line has none.

        The modules read no word without a flag as their model, although their parser takes one.
        """
        words = [word for _, word in self.parsed.positionals] if self.form is Form.SERVE else []
        return self.parsed.values.get("model") or (words[0] if words else None)

    @property
    def open(self) -> bool:
        """Whether more flags may hold that admission cannot see: a `--config` file, or `$(EXTRA)`."""
        return self.parsed.config is not None or bool(self.parsed.opaque)

    @property
    def spread(self) -> bool:
        """Whether one engine may span several pods, so that one pod does not show its size or its health."""
        ray = "ray" in (self.text("distributed-executor-backend"), self.text("data-parallel-backend"))
        return ray or bool(_SPREAD & set(self.parsed.values))

    @property
    def grpc(self) -> bool:
        """Whether it speaks gRPC instead of HTTP."""
        return self.form is Form.GRPC or (self.form is Form.SERVE and "grpc" in self.parsed.values)

    @property
    def api_servers(self) -> int | None:
        """How many processes answer requests, None when that cannot be seen (`ServeSubcommand.cmd`)."""
        if self.form is not Form.SERVE or self.grpc:
            return 1
        if self.on("headless"):
            return 0
        if "api-server-count" in self.parsed.values:
            return self.number("api-server-count")
        if {"data-parallel-multi-port-external-lb", "data-parallel-external-lb", "data-parallel-rank"} & set(
            self.parsed.values
        ):
            return 1
        if self.on("data-parallel-hybrid-lb") or "data-parallel-start-rank" in self.parsed.values:
            return self.number("data-parallel-size-local")
        return self.number("data-parallel-size")

    @property
    def port(self) -> int | None:
        """Port on which it listens, `PORT` by default; None where that is known only in the pod, or is none."""
        text: str | None = self.text("port") or str(PORT)
        if text and text.startswith("$(") and text.endswith(")"):
            text = self.env.get(text[2:-1])
        number = int(text) if text and text.isdecimal() and len(text) <= len(str(_LAST_PORT)) else 0
        return number if 0 < number <= _LAST_PORT else None

    def text(self, flag: str) -> str | None:
        """Return the value of a flag as it is written, None when it is missing."""
        return self.parsed.values.get(flag)

    def number(self, flag: str) -> int | None:
        """Return an integer flag, 1 when it is missing, None when admission cannot see it (`$(NAME)`)."""
        text = self.parsed.values.get(flag, "1")
        return int(text) if text.isdecimal() and len(text) <= _DIGITS else None

    def on(self, flag: str) -> bool:
        """Whether a switch is on, or a flag has a value."""
        return flag in self.parsed.values

    def has(self, flag: str) -> bool:
        """Whether the command line has the flag or its `no-` form."""
        return flag in self.parsed.values or flag in self.parsed.off

    def is_set(self, variable: str) -> bool:
        """Whether a variable of vLLM's env is on."""
        return (self.env.get(variable) or "").strip().lower() in _TRUE


def of_launch(launch: Launch, env: Mapping[str, str | None]) -> Server | None:
    """Return the server that a launch starts, None for another program; of what only the pod knows, `env` has None."""
    form = _form(launch)
    if form is None:
        return None
    seen = {**({} if launch.cleared else env), **launch.env}
    known = {name: value for name, value in seen.items() if name not in launch.assigned}
    if launch.through:  # a shell divides a value at its blanks
        known = {name: value for name, value in known.items() if value and not re.search(_BLANK, value)}
    return Server(form, launch.rest, _read(launch.rest, known), seen, launch.certain)


def starts(launch: Launch) -> bool:
    """Whether a launch starts a server of vLLM."""
    return _form(launch) is not None


def written_command(site: Site) -> tuple[str, ...]:
    """Return the command to write: `vllm serve` where only the image's entrypoint says it, none where one stands."""
    if site.command or starts(site.launch):
        return site.command
    return ("vllm",) if site.args[:1] == ("serve",) else ("vllm", "serve")


def implied(site: Site) -> Server | None:
    """Return the server that a bare command line starts, also where the image's own entrypoint is vLLM's."""
    found = of_launch(site.launch, site.values)
    if found or site.command:
        return found
    args = site.args[1:] if site.args[:1] == ("serve",) else site.args
    return Server(Form.SERVE, args, _read(args, site.values), site.values)


def extended(server: Server, words: Sequence[str]) -> Server:
    """Return a bare server with more words at the end of its arguments."""
    args = (*server.args, *words)
    return replace(server, args=args, parsed=_read(args, server.env))


def _read(args: Sequence[str], env: Mapping[str, str | None]) -> serve_arguments.Parsed:
    return serve_arguments.parse([resolve_own(word, env) for word in args])


def _form(launch: Launch) -> Form | None:
    if launch.launcher is Launcher.VLLM:
        return Form.SERVE if launch.target == "serve" else None
    if not launch.module:
        return None
    if launch.target in _GRPC_MODULES:
        return Form.GRPC
    return Form.MODULE if launch.target in _MODULES else None
