"""A process that ends before or after any of its statements loses nothing and doubles nothing."""

from __future__ import annotations

import pytest

from tests.sessions.steps import House

RATE = {"learning_rate": 0.05}


async def asked(house):
    """Ask for everything that a model does."""
    await house.ask(0, "create_model")
    await house.ask_step(1, [1, 2, 3])
    await house.ask(2, "optim_step", adam_params=RATE)
    await house.ask(3, "save_weights", path="a")
    await house.ask(4, "save_weights_for_sampler", sampling_session_seq_id=0, kind="inflight")
    await house.ask_step(5, [4, 5, 6])
    await house.ask(6, "save_weights_for_sampler", sampling_session_seq_id=1, kind="inflight")
    await house.ask(7, "optim_step", adam_params=RATE)
    await house.ask(8, "save_weights_for_sampler", sampling_session_seq_id=2, kind="inflight")
    await house.ask(9, "save_weights", path="a", overwrite=True)
    await house.ask(10, "load_weights", path="tinker://s:train:0/weights/a", optimizer=True)
    await house.ask(11, "save_weights_external", path="out")
    await house.ask_step(12, [1, 3])
    await house.ask(13, "optim_step", adam_params=RATE)
    await house.ask(14, "save_weights_for_sampler", path="last")


async def disturbed(root, ends_at=None, url=None):
    """Return what there is at the end, with as many statements as it took."""
    root.mkdir()
    async with House(root, url) as house:
        await asked(house)
        house.ends_at = ends_at
        while not await house.executed():
            house.ends_at = None
        house.ends_at, statements = None, house.statements
        # One more step: where it ended before the last snapshot was kept, that of this step holds it.
        await house.ask_step(15, [2, 2])
        await house.ask(16, "optim_step", adam_params=RATE)
        assert await house.executed()
        held, files = await house.contents()
        return repr((held, files)).replace(str(root), "ROOT"), statements


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "each", [9, pytest.param(1, marks=pytest.mark.thorough)], ids=["some statements", "all statements"]
)
async def test_whatever_statement_it_ends_at_the_end_is_the_same(tmp_path, each, when):
    whole, statements = await disturbed(tmp_path / "whole")
    assert "'failed'" not in whole
    assert whole.count("checkpoint_saved") == 4
    for number in range(1, statements + 1, each):
        other, _ = await disturbed(tmp_path / str(number), (number, when))
        assert other == whole, f"the process ended {when} statement {number} of {statements}"


@pytest.mark.thorough
async def test_it_is_the_same_on_a_server(tmp_path, place):
    whole, statements = await disturbed(tmp_path / "whole", url=place("postgresql"))
    for number in range(1, statements + 1, 9):
        other, _ = await disturbed(tmp_path / str(number), (number, "after"), place("postgresql"))
        assert other == whole, f"the process ended after statement {number} of {statements}"


async def test_a_request_at_which_the_gateway_itself_fails_ends_and_the_next_ones_go_on(tmp_path):
    async with House(tmp_path) as house:
        await house.ask(0, "create_model")
        await house.ask_step(1, [1, 2, 3])
        await house.ask(2, "optim_step", adam_params=RATE)
        train = []

        def changed(engine):
            train.append(engine.train)

            async def garbled(model, seq, kind, body, layout=""):
                answer = await train[0](model, seq, kind, body, layout)
                return answer._replace(body=b"\xff\xff\xff") if seq == 1 else answer

            engine.train = garbled

        assert await house.executed(changed)
        answers = await house.answers()
        assert (answers[1][0], answers[1][2], answers[2][0]) == ("failed", "server", "done")
        assert b'"grad_norm:mean":0.0' in answers[2][1]  # what failed has left no gradient


async def test_weights_that_were_loaded_and_cannot_be_kept_are_not_in_the_model(tmp_path):
    from muster.sessions.seam import Refused  # noqa: PLC0415  # the test of one refusal

    async with House(tmp_path) as house:
        await house.ask(0, "create_model")
        await house.ask(1, "save_weights", path="a")
        await house.ask_step(2, [1, 2, 3])
        await house.ask(3, "optim_step", adam_params=RATE)
        await house.ask(4, "load_weights", path="tinker://s:train:0/weights/a", optimizer=True)
        await house.ask(5, "optim_step", adam_params=RATE)

        def changed(engine):
            snapshot, full = engine.snapshot, []

            async def filled(model, folder):
                if folder.name == "4" and not full:
                    full.append(folder)
                    raise Refused("weights: 4: the storage is full: delete checkpoints or extend it")
                return await snapshot(model, folder)

            engine.snapshot = filled

        assert await house.executed(changed)
        answers = await house.answers()
        assert (answers[4][0], answers[4][2]) == ("failed", "user")
        assert b'"steps:sum":2.0' in answers[5][1]  # 1 if what was loaded had stayed
