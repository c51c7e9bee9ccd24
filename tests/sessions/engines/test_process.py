"""What a process of an engine does with requests of one model that meet each other."""

import asyncio
import errno
import threading

import pytest
from aiohttp import web
from tinker.proto import tinker_public_pb2

from muster.sessions.engines.client import Engine, FailedError, LostError
from muster.sessions.engines.process import Service
from muster.sessions.seam import Outputs

WAIT = 120
LORA = b'{"rank": 1}'


class Gated:
    """A trainer that goes on when a test says so; a loss named `bad` is a fault."""

    def __init__(self):
        self.models, self.calls = set(), []
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def create(self, model, _lora):
        self._pass("create")
        self.models.add(model)

    def step(self, _model, step):
        self._pass("step")
        if step.loss == "bad":
            raise MemoryError
        return Outputs([], {})

    def optim(self, _model, _params):
        self._pass("optim")
        return {}

    def save(self, model, folder, *, optimizer):
        if folder.name == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        assert model in self.models
        assert optimizer

    def unload(self, model):
        self.models.discard(model)

    def _pass(self, call):
        self.calls.append(call)
        self.begun.set()
        assert self.gate.wait(WAIT)


class Running:
    """A service behind its socket, and a trainer that stops at its gate."""

    def __init__(self, trainer, engine, runner):
        self.trainer, self.engine, self.runner = trainer, engine, runner

    async def held(self, request):
        """Send a request, and return it when the trainer is at it."""
        self.trainer.begun.clear()
        self.trainer.gate.clear()
        task = asyncio.create_task(request)
        assert await asyncio.to_thread(self.trainer.begun.wait, WAIT)
        return task

    async def heard(self, request):
        """Send a request, and return it when the service has read what was sent so far."""
        task = asyncio.create_task(request)
        for _ in range(3):
            await self.models()
        return task

    async def models(self):
        return (await self.engine.state())["models"]


@pytest.fixture
async def running(tmp_path):
    trainer, engine = Gated(), Engine(tmp_path / "socket")
    runner = web.AppRunner(Service(trainer, None).app())
    await runner.setup()
    await web.UnixSite(runner, tmp_path / "socket").start()
    yield Running(trainer, engine, runner)
    trainer.gate.set()
    await engine.close()
    await runner.cleanup()


def step(loss="cross_entropy"):
    message = tinker_public_pb2.ForwardBackwardRequest(loss_fn=loss)
    message.data.add().model_input.add().encoded_text.tokens = b"\0\0\0\0"
    return message.SerializeToString()


async def test_a_model_that_is_unloaded_while_it_is_made_is_gone_afterwards(running):
    made = await running.held(running.engine.train("m", 0, "create", LORA))
    unloaded = await running.heard(running.engine.unload("m"))
    running.trainer.gate.set()
    await asyncio.gather(made, unloaded)
    assert (await running.models(), running.trainer.models) == ({}, set())


async def test_a_model_that_is_unloaded_while_it_is_at_work_is_gone_afterwards(running):
    await running.engine.train("m", 0, "create", LORA)
    worked = await running.held(running.engine.train("m", 1, "step", step()))
    unloaded = await running.heard(running.engine.unload("m"))
    running.trainer.gate.set()
    await asyncio.gather(worked, unloaded)
    assert (await running.models(), running.trainer.models) == ({}, set())
    with pytest.raises(LostError, match="is not a model"):
        await running.engine.train("m", 2, "optim", b"{}")


async def test_a_model_that_was_made_when_nobody_waits_for_it_any_more_is_forgotten(running):
    made = await running.held(running.engine.train("m", 0, "create", LORA))
    made.cancel()
    await asyncio.gather(made, return_exceptions=True)
    await running.heard(running.models())
    running.trainer.gate.set()
    with pytest.raises(LostError):
        await running.engine.train("m", 1, "optim", b"{}")
    assert running.trainer.models == set()


async def test_a_model_whose_step_failed_is_unloaded_all_the_same(running):
    await running.engine.train("m", 0, "create", LORA)
    with pytest.raises(FailedError, match="MemoryError"):
        await running.engine.train("m", 1, "step", step("bad"))
    await running.engine.unload("m")
    assert running.trainer.models == set()


async def test_a_request_that_comes_again_while_it_runs_is_done_once(running):
    await running.engine.train("m", 0, "create", LORA)
    first = await running.held(running.engine.train("m", 1, "step", step()))
    again = await running.heard(running.engine.train("m", 1, "step", step()))
    running.trainer.gate.set()
    one, other = await asyncio.gather(first, again)
    assert (one, running.trainer.calls) == (other, ["create", "step"])


async def test_a_snapshot_says_after_which_request_it_is_also_when_one_was_running(running, tmp_path):
    await running.engine.train("m", 0, "create", LORA)
    taken = await running.held(running.engine.train("m", 1, "optim", b"{}"))
    written = await running.heard(running.engine.snapshot("m", tmp_path / "snapshot"))
    running.trainer.gate.set()
    assert (await written, (await taken).body) == (1, b'{"metrics":{}}')


async def test_why_a_snapshot_could_not_be_written_is_told(running, tmp_path):
    await running.engine.train("m", 0, "create", LORA)
    with pytest.raises(FailedError, match="No space left"):
        await running.engine.snapshot("m", tmp_path / "full")


async def test_an_engine_that_does_not_train_has_nothing_to_unload(tmp_path):
    runner = web.AppRunner(Service(None, None).app())
    await runner.setup()
    await web.UnixSite(runner, tmp_path / "socket").start()
    engine = Engine(tmp_path / "socket")
    await engine.unload("m")
    await engine.close()
    await runner.cleanup()
