"""What of a command line becomes an argument of an engine, and what is refused."""

from pathlib import Path

import pytest
import torch

from muster.sessions.engines import options
from muster.sessions.refusals import Refused


class Engine:
    def __init__(
        self, base: Path, *, budget: int = 1, memory: float = 0.5, cache: float | None = None, device: str = "cpu",
        dtype: torch.dtype = torch.float32
    ) -> None:  # fmt: skip
        """Take nothing."""


class Open:
    def __init__(self, base, **options):
        """Take anything."""


def test_options_become_arguments_of_their_types():
    given = ("budget=4096", "memory=1", "cache=null", "device=0", "dtype=bfloat16")
    made = options.arguments(Engine, given, "sampler")
    assert made == {"budget": 4096, "memory": 1, "cache": None, "device": "0", "dtype": torch.bfloat16}
    assert options.arguments(Open, ("any=[1]", "text=a b"), "trainer") == {"any": [1], "text": "a b"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["memroy=1"], "memroy: Engine does not take it: pass budget, memory, cache, device, dtype"),
        (["base=/other"], "base: Engine does not take it: pass budget, memory, cache, device, dtype"),
        (["budget=many"], "budget: many: is not of its type: pass int"),
        (["budget=1.5"], "budget: 1.5: is not of its type: pass int"),
        (["memory=true"], "memory: true: is not of its type: pass float"),
        (["cache=x"], "cache: x: is not of its type: pass float | None"),
        (["dtype=int8"], "dtype: int8: is not a type of weights: pass float32, bfloat16, float16, float64"),
        (["budget=1", "budget=2"], "budget: 2: is given twice: leave one of them out"),
    ],
)
def test_an_option_that_would_not_do_what_it_says_is_refused(given, told):
    with pytest.raises(Refused) as refused:
        options.arguments(Engine, given, "sampler")
    assert str(refused.value) == f"--sampler-option: {told}"


@pytest.mark.parametrize("name", ["no.such:Engine", "muster.sessions.seam:Nobody", "muster.sessions.seam", ":Engine"])
def test_an_engine_that_cannot_be_imported_is_refused(name):
    with pytest.raises(Refused, match=r"--trainer: .*: pass MODULE:CLASS"):
        options.maker(name, "trainer")


def test_a_reason_is_one_line_of_bounded_length():
    assert options.sentence(OSError("no\nsuch  file")) == "OSError: no such file"
    assert options.sentence(Refused("rank: 3")) == "rank: 3"
    assert len(options.sentence(ValueError("x" * 1000))) == 401
