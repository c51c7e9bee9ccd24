"""One judgement over the records of all ranks."""

from muster_guard import measured, sizes, start, trainings
from muster_guard.measured import Judgement, judge


def record(node="a", ranks=1, **more):
    return {
        "node": node, "ranks": ranks, "asked": 0, "held": ([], [], []), "prints": {}, "moved": {}, "averaged": False,
        **more,
    }  # fmt: skip


def printed(gradient, after):
    return {"1": [["0/1 (4,)", 7, gradient, after, False]]}


APART = {0: record(prints=printed([1.0, 2.0], 8)), 1: record("b", prints=printed([-2.0, 1.0], 9))}


def test_nodes_are_counted_once_all_ranks_have_spoken():
    assert judge({0: record(), 1: record("b")}, 2, last=False).nodes == 2
    assert judge({0: record(), 1: record("b")}, 3, last=False).nodes is None


def test_ranks_that_train_apart_are_named():
    found = judge(APART, 2, last=False)

    assert (found.gradients, found.apart) == ("not-shared", [0, 1])


def test_ranks_that_take_the_mean_of_their_weights_are_not_judged():
    averaging = {rank: {**each, "averaged": True} for rank, each in APART.items()}

    assert judge(averaging, 2, last=False).gradients is None


def test_idle_devices_of_a_pod_are_known_at_the_last_stage_and_when_its_ranks_have_spoken():
    records = {0: record(asked=8), 1: record("b", ranks=2, asked=8)}

    assert judge(records, 3, last=False).pods == {}
    assert judge(records, 3, last=True).pods == {"a": [0, 0, 0, 8]}


def test_trainer_says_how_many_nodes_there_are_at_least():
    assert [sizes.nodes({"PET_NNODES": text}) for text in ("2", "2:4", "", "many")] == [2, 2, 1, 1]
    assert sizes.nodes({}) == 1


def test_of_a_size_that_differs_one_sentence_is_said_and_of_nodes_apart_another(monkeypatch, capsys):
    monkeypatch.setenv("PET_NNODES", "2")
    monkeypatch.setenv("MUSTER_GUARD", "report")
    monkeypatch.setattr(start, "MODE", "report")
    measure = measured._Measure()
    trainings.compare(measure.size)
    measure.judged(Judgement(nodes=1)._asdict())

    assert measure.found == ["size-differs"]
    assert capsys.readouterr().err.count("muster: ") == 1

    measure.size = 2
    measure.judged(Judgement(nodes=1)._asdict())
    assert "has ranks on 1 of 2 nodes" in capsys.readouterr().err
