"""`python -m muster.webhook.controllers`: how it ends."""

from __future__ import annotations

from muster.webhook.controllers import __main__ as program


def test_controllers_that_cannot_start_say_why_and_end_with_2(tmp_path, capsys):
    assert program.main(["--config", str(tmp_path / "nothing.yaml")]) == 2
    assert "nothing.yaml" in capsys.readouterr().err


def test_controllers_that_were_stopped_end_with_0(monkeypatch):
    asked = []

    async def runs(_config, _kubeconfig, *, without_lease):
        asked.append(without_lease)

    monkeypatch.setattr(program, "_run", runs)
    assert (program.main([]), program.main(["--without-lease"])) == (0, 0)
    assert asked == [False, True]
