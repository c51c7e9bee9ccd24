from __future__ import annotations

import importlib

import pytest

from e2e.cluster import places, processes

main = importlib.import_module("bench.peers.__main__")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "400"], "give 2 numbers"),
        (["--requests", "1,2,3"], "give 2 numbers"),
        (["--requests", "400,0"], "'0': is not a number from 1"),
        (["--rounds", "x"], "'x': is not a number from 1"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_before_anything_is_built(words, said, capsys):
    with pytest.raises(SystemExit):
        main.main(words)
    assert said in capsys.readouterr().err


def test_a_peer_that_is_unknown_is_named_before_anything_is_built(capsys):
    assert main.main(["--peers", "kivverno"]) == 1
    assert "kivverno" in capsys.readouterr().err


def test_a_cluster_that_is_up_is_neither_used_nor_taken_down(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    where = places.named("other")
    where.make()
    with processes.start(where, "sleeper", ["sleep", "60"]) as process:
        assert main.main(["--name", "other"]) == 1
        assert process.poll() is None
        process.kill()
    assert "bring it down" in capsys.readouterr().err
