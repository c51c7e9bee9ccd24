"""Being called back when a module has been imported."""

import importlib
import sys

import pytest

from muster_guard.watches import Watcher


@pytest.fixture
def watch(monkeypatch, tmp_path):
    """Watch a module that is made of this source."""
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def begin(source, callback):
        (tmp_path / "watched" / "part.py").write_text(source)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "meta_path", [Watcher({"watched.part": callback}), *sys.meta_path])
        return lambda: importlib.import_module("watched.part")

    yield begin
    for name in ("watched.part", "watched"):
        sys.modules.pop(name, None)


def test_the_module_has_run_when_the_call_comes_and_nobody_else_has_it_yet(watch):
    seen = []

    def wrap(module):
        seen.append(module.value)
        module.value = "wrapped"

    load = watch("value = 'made'", wrap)

    assert load().value == "wrapped"
    assert seen == ["made"]


def test_the_module_is_as_if_nobody_had_watched(watch):
    module = watch("import inspect\ndef f():\n    return 1\n", lambda _: None)()

    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__
    assert importlib.import_module("inspect").getsource(module.f) == "def f():\n    return 1\n"


def test_it_is_called_once_and_not_when_the_module_is_imported_again(watch):
    calls = []
    load = watch("", calls.append)

    load()
    sys.modules.pop("watched.part")
    load()

    assert len(calls) == 1


def test_what_it_raises_is_told_and_the_import_succeeds(watch, capsys):
    module = watch("value = 1", lambda _: 1 / 0)()

    assert module.value == 1
    assert "cannot watch watched.part: ZeroDivisionError" in capsys.readouterr().err


def test_a_module_that_fails_fails_as_it_would_and_calls_nobody(watch):
    calls = []

    with pytest.raises(ValueError, match="mine"):
        watch("raise ValueError('mine')", calls.append)()

    assert calls == []


def test_a_module_that_is_not_there_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Watcher({"no_such_module_at_all": print}), *sys.meta_path])

    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        importlib.import_module("no_such_module_at_all")
