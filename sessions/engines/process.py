"""An engine as a process, `python -m muster.sessions.engines.process`: it answers a Gateway over a socket or a port.

HTTP with one worker thread behind it: what a model is asked runs one after the other, in the order in which it came,
tenants take turns, steps of several models share passes (`turns`), samples run together (`desk`). Each training request
has its number; asked again for the last one, also while that runs, the engine answers what it answered, so that a lost
answer applies no gradient twice. At a Unix socket the process ends when its standard input does, so none is left when
its Gateway is killed; at a port it ends as `network` says.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
import secrets
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import orjson
from aiohttp import web

from muster.sessions.devices.lines import Join
from muster.sessions.engines import network, options
from muster.sessions.engines.bursts import Bursts, kept
from muster.sessions.engines.desk import CROWD, Desk
from muster.sessions.engines.turns import Turns
from muster.sessions.seam import Adam, Lora, Movable, Refused, Sampler, Sharing, Trainer
from muster.sessions.tenancy import HEADER, Share
from muster.sessions.wire import samples, steps

__all__ = ["Service", "main"]

_LOG = logging.getLogger(__name__)
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_LARGEST = 1 << 28  # bytes of a request
_SILENCE = 600.0
_TOLD = 143  # as a shell reports SIGTERM


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    form: str
    layout: str | None = None  # of a step that shared passes


class Service:
    """What one engine answers.

    Args:
        trainer: None where this process does not train.
        sampler: None where it does not sample.
        bursts: what runs the work of engines that take turns on a device; None where they have one of their own.
    """

    def __init__(self, trainer: Trainer | None, sampler: Sampler | None, bursts: Bursts | None = None) -> None:
        self._trainer = trainer
        self._instance = secrets.token_hex(8)
        self._thread: Executor = bursts or ThreadPoolExecutor(1, thread_name_prefix="engine")
        # Files are written beside the passes where the trainer allows it: to flush them takes long, and no processor.
        beside = isinstance(trainer, Sharing) and bursts is None  # memory that is away cannot be written
        self._turns = Turns(trainer, self._thread)
        self._files = Turns(None, ThreadPoolExecutor(1, thread_name_prefix="files")) if beside else self._turns
        self._last: dict[str, tuple[int, _Answer]] = {}
        self._orders: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._desk = Desk(sampler, self._work, getattr(sampler, "crowd", CROWD)) if sampler else None
        if bursts is not None and self._desk is not None:
            bursts.more = lambda: self._desk is not None and self._desk.is_busy

    def app(self) -> web.Application:
        """Return the routes."""
        app = web.Application(client_max_size=_LARGEST)
        app.add_routes(
            [
                web.get("/state", self._state),
                web.post("/models/{model}/{seq}/{kind}", self._train),
                web.post("/models/{model}/snapshot", self._snapshot),
                web.delete("/models/{model}", self._unload),
                web.post("/sample", self._sample),
            ]
        )
        app.cleanup_ctx.append(self._sampling)
        return app

    async def _state(self, _: web.Request) -> web.Response:
        models = {name: seq for name, (seq, _) in self._last.items()}
        return _json({"instance": self._instance, "models": models, "waiting": self._turns.waiting})

    async def _train(self, request: web.Request) -> web.Response:
        model, seq, kind = request.match_info["model"], int(request.match_info["seq"]), request.match_info["kind"]
        body = await request.read()
        async with self._order(model):
            return await self._answered(request, model, seq, kind, body)

    async def _answered(self, request: web.Request, model: str, seq: int, kind: str, body: bytes) -> web.Response:
        last, answer = self._last.get(model, (-1, None))
        fresh = kind in _MAKES
        if answer is None and not fresh:
            return _json({"error": f"{model}: is not a model of this engine"}, 404)
        if answer is None or seq > last or (fresh and seq != last):
            try:
                answer = await self._done(_share(request), model, kind, body, request.headers.get("Layout", ""))
            except Refused as error:
                return _json({"error": str(error)}, 422)
            except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
                _LOG.exception("request %s of %s failed", seq, model)
                self._last.pop(model, None)  # half of a gradient may be there; the Gateway makes the model anew
                return _failed(error)
            self._last[model] = (seq, answer)
            if fresh and request.transport is None:
                await self._forget(request, model)  # it was unloaded meanwhile, or is asked for again
        elif seq < last:
            return _json({"error": f"{model}: is at request {last}, so request {seq} is over"}, 409)
        headers = {"Layout": answer.layout} if answer.layout else {}
        return web.Response(body=answer.body, content_type=answer.form, headers=headers)

    def _order(self, model: str) -> asyncio.Lock:
        """Return what the requests of a model wait for, so that one is over when the next begins."""
        return self._orders.setdefault(model, asyncio.Lock())

    async def _done(self, share: Share, model: str, kind: str, body: bytes, layout: str) -> _Answer:
        if kind == "step":
            outputs, shared = await asyncio.wrap_future(self._turns.step(share, model, body, layout))
            return _Answer(steps.outputs(outputs), _PROTOBUF, shared)
        if self._trainer is None:
            raise Refused("this engine does not train")
        turns = self._files if kind == "save" else self._turns
        work = functools.partial(_KINDS[kind], self._trainer, model, body)
        done: _Answer = await asyncio.wrap_future(turns.do(share, model, work))
        return done

    async def _snapshot(self, request: web.Request) -> web.Response:
        model, folder = request.match_info["model"], Path((await request.json())["folder"])
        async with self._order(model):
            if model not in self._last or self._trainer is None:
                return _json({"error": f"{model}: is not a model of this engine"}, 404)
            save = functools.partial(self._trainer.save, model, folder, optimizer=True)
            try:
                await asyncio.wrap_future(self._files.do(_share(request), model, save))
            except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
                _LOG.exception("a snapshot of %s failed", model)
                return _failed(error)
            return _json({"seq": self._last[model][0]})

    async def _unload(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        async with self._order(model):
            await self._forget(request, model)
        return _json({})

    async def _forget(self, request: web.Request, model: str) -> None:
        """Have the trainer forget a model, also one at which it failed."""
        self._last.pop(model, None)
        if self._trainer is not None:
            unload = functools.partial(self._trainer.unload, model)
            await asyncio.wrap_future(self._turns.do(_share(request), model, unload))

    async def _work(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    async def _sample(self, request: web.Request) -> web.Response:
        folder = request.query.get("folder")
        if self._desk is None:
            return _json({"error": "this engine does not sample"}, 422)
        try:
            wanted = samples.sampling(samples.parsed(await request.read()), folder)
            place = Path(folder) if folder else None
            sampled = await self._desk.ask(_share(request), wanted, place, lambda: request.transport is None)
        except Refused as error:
            return _json({"error": str(error)}, 422)
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
            _LOG.exception("a sample failed")
            return _failed(error)
        return web.Response(body=samples.response(sampled), content_type=_PROTOBUF)

    async def _sampling(self, _: web.Application) -> Any:
        task = asyncio.create_task(self._desk.run()) if self._desk else None
        if task is not None:
            task.add_done_callback(_ended)
        yield
        if task is not None:
            task.cancel()


def _share(request: web.Request) -> Share:
    """Return whose work a request is."""
    return Share.read(request.headers.get(HEADER, ""))


def _ended(task: asyncio.Task[None]) -> None:
    """End the process with its sampler; the Gateway starts another one, and asks it again."""
    if not task.cancelled():
        _LOG.critical("the sampler can do no more, so this process ends", exc_info=task.exception())
        os._exit(1)


def _create(trainer: Trainer, model: str, body: bytes) -> _Answer:
    trainer.create(model, Lora(**orjson.loads(body)))
    return _Answer(b"{}", _JSON)


def _optim(trainer: Trainer, model: str, body: bytes) -> _Answer:
    return _Answer(orjson.dumps({"metrics": trainer.optim(model, Adam(**orjson.loads(body)))}), _JSON)


def _save(trainer: Trainer, model: str, body: bytes) -> _Answer:
    asked = orjson.loads(body)
    trainer.save(model, Path(asked["folder"]), optimizer=asked["optimizer"])
    return _Answer(b"{}", _JSON)


def _load(trainer: Trainer, model: str, body: bytes) -> _Answer:
    asked = orjson.loads(body)
    trainer.load(model, Path(asked["folder"]), optimizer=asked["optimizer"])
    return _Answer(b"{}", _JSON)


_KINDS: dict[str, Callable[[Trainer, str, bytes], _Answer]] = {
    "create": _create,
    "optim": _optim,
    "save": _save,
    "load": _load,
}
_MAKES = frozenset({"create", "load"})


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type=_JSON, status=status)


def _failed(error: Exception) -> web.Response:
    return _json({"error": f"{type(error).__name__}: {error}"[:1000]}, 500)


def _made(name: str, args: argparse.Namespace, given: Sequence[str], of: str) -> Any:
    """Make an engine, or end the process: with the last line of the log, why it cannot be made of what was given."""
    try:
        make = options.maker(name, of)
        return make(args.base, **options.arguments(make, given, of))
    except (ValueError, OSError, ImportError) as error:
        if not isinstance(error, Refused):
            _LOG.exception("the %s cannot be made", of)
        sys.stderr.write(f"{options.sentence(error)}\n")
        sys.exit(options.REFUSED)


def _bursts(args: argparse.Namespace) -> Bursts | None:
    """Return what runs the work of engines that take turns; None where they have a device of their own."""
    if args.device_lease is None:
        return None
    role = "trainer" if args.trainer else "sampler"
    for name, of in ((args.trainer, "trainer"), (args.sampler, "sampler")):
        if name:
            _prepared(name, of, args.base)
    if args.socket is not None:
        threading.Thread(target=_ends_with_input, daemon=True).start()  # it may wait for long
    try:
        return Bursts(args.device_lease, Join(args.device_session, role, args.device_weight, kept(args.base)))
    except ValueError as error:
        sys.stderr.write(f"--device-lease: {error}\n")
        sys.exit(options.REFUSED)


def _ends_with_input() -> None:
    select.select([sys.stdin], [], [])
    os._exit(0)


def _engines(args: argparse.Namespace, bursts: Bursts | None) -> tuple[Trainer | None, Sampler | None]:
    """Make what is asked for, where there is a device to share while that is held."""
    trainer = _made(args.trainer, args, args.trainer_option, "trainer") if args.trainer else None
    sampler = _made(args.sampler, args, args.sampler_option, "sampler") if args.sampler else None
    if bursts is not None:
        movable = [each for each in (trainer, sampler) if isinstance(each, Movable)]
        if len(movable) < sum(each is not None for each in (trainer, sampler)):
            sys.stderr.write("--device-lease: this engine cannot give its memory up: give it a device of its own\n")
            sys.exit(options.REFUSED)
        bursts.engines = movable
        for each in movable:
            each.back()
    return trainer, sampler


def _prepared(name: str, of: str, base: Path) -> None:
    """Import what an engine needs before it has a device, for libraries are no memory of that."""
    with suppress(ValueError, OSError, ImportError):  # which are told when it is made
        prepare = getattr(options.maker(name, of), "prepare", None)
        if prepare is not None:
            prepare(base)


def _is_orphan() -> bool:
    """Tell whether standard input has ended while this process was loading its base model."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


async def _until_orphaned() -> None:
    """Wait until standard input ends: whoever started this process is gone, or wants it to end."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def _serve(service: Service, socket_: Path) -> None:
    runner = web.AppRunner(service.app(), access_log=None)
    await runner.setup()
    await web.UnixSite(runner, socket_).start()
    await _until_orphaned()
    os._exit(0)  # a pass of the worker thread may take minutes, and nobody waits for it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m muster.sessions.engines.process", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--base", type=Path, required=True, help="folder of the base model")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="Unix socket to make; the process ends with its standard input")
    where.add_argument("--port", type=int, help="TCP port to answer at, with --token; 0 chooses a free one")
    parser.add_argument("--host", default="0.0.0.0", help="address of the port; every one by default")  # noqa: S104  # a pod's own
    parser.add_argument(
        "--token", type=Path, metavar="FILE", help="what requests to the port have as their bearer token"
    )
    what = f"end, with 0, when nobody with the token has asked for so long; {_SILENCE:g}"
    parser.add_argument("--silence", type=float, default=_SILENCE, metavar="SECONDS", help=what)
    parser.add_argument("--trainer", metavar="MODULE:CLASS", help="what trains; nothing by default")
    parser.add_argument("--sampler", metavar="MODULE:CLASS", help="what samples; nothing by default")
    option = "of the sampler's constructor, such as rank=32; may be given several times"
    parser.add_argument("--sampler-option", action="append", default=[], metavar="KEY=VALUE", help=option)
    parser.add_argument("--trainer-option", action="append", default=[], metavar="KEY=VALUE", help="of the trainer's")
    parser.add_argument("--device-lease", type=Path, metavar="SOCKET", help="of the agent of a device that is shared")
    parser.add_argument("--device-session", default="session", metavar="NAME", help="whose engines share turns there")
    parser.add_argument("--device-weight", type=float, default=1.0, metavar="NUMBER", help="of that session")
    return parser


def main() -> None:
    """Run an engine until standard input ends, or at a port until it is told to end."""
    args = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    token = ""
    if args.socket is None:
        token = _token(args.token)
        # The first process of a container ignores it by itself. With 0 a Kubernetes Job would count it as done.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_TOLD))
    bursts = _bursts(args)
    if bursts is None:
        trainer, sampler = _engines(args, None)
    else:
        trainer, sampler = bursts.submit(_engines, args, bursts).result()
    if args.socket is None:
        listening = socket.create_server((args.host, args.port), backlog=128)
        print(f"engine at port {listening.getsockname()[1]}", flush=True)  # noqa: T201  # whoever let it choose one
        asyncio.run(_answer(Service(trainer, sampler, bursts), listening, token, args.silence))
        return
    if _is_orphan():
        return  # the socket is that of an engine which another Gateway started meanwhile
    args.socket.unlink(missing_ok=True)
    asyncio.run(_serve(Service(trainer, sampler, bursts), args.socket))


async def _answer(service: Service, listening: socket.socket, token: str, silence: float) -> None:
    await network.serve(service.app(), listening, token, silence)
    os._exit(0)  # as above


def _token(file: Path | None) -> str:
    """Return the token of a port, or end the process as `_made` does."""
    told = "--token: is missing: pass a file with a token, for whoever reaches a port may ask it"
    try:
        if file is not None:
            return network.token_of(file)
    except ValueError as error:
        told = str(error)
    sys.stderr.write(f"{told}\n")
    sys.exit(options.REFUSED)


if __name__ == "__main__":
    main()
