"""What a trainer is said to need is what its passes need, as torch counts it."""

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoModelForCausalLM, Qwen3Config

from muster.sessions.cli.main import main
from muster.sessions.engines.activations import Scorer, recompute_layers
from muster.sessions.engines.footprint import ROOM, Footprint, Plan, footprint, peak
from muster.sessions.seam import Lora

_SIZES = {
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 40960,
}
_CONFIG = Qwen3Config(**_SIZES)
_EIGHT = Qwen3Config(
    vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32,
    num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=False,
)  # fmt: skip
_LORA = Lora(rank=4)


_THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize("recompute", [True, pytest.param(False, marks=_THOROUGH)])
@pytest.mark.parametrize("lora", [_LORA, pytest.param(None, marks=_THOROUGH)], ids=["adapters", "all weights"])
def test_few_layers_and_lengths_foretell_all_of_them(lora, recompute):
    plan = Plan(_CONFIG, lora, torch.bfloat16, recompute)
    told = footprint(plan)
    for tokens in (1500, 6000):
        counted = told.held + peak(plan, tokens, 6)
        assert told.bytes(tokens) == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize("recompute", [True, False])
def test_tensors_that_are_fake_count_as_real_ones(recompute):
    model = AutoModelForCausalLM.from_config(_CONFIG, dtype=torch.bfloat16).eval()
    recompute_layers(model, above=0 if recompute else 2**62)
    scorer, tracker, ids = Scorer(model), MemTracker(), torch.zeros((1, 700), dtype=torch.int64)
    tracker.track_external(model)
    before = tracker.get_tracker_snapshot("current")[torch.device("cpu")]["Total"]
    with tracker:
        torch.autograd.grad(scorer(ids, ids[..., None]).sum(), list(model.parameters()), allow_unused=True)
    counted = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"] - before
    assert peak(Plan(_CONFIG, None, torch.bfloat16, recompute), 700, 6) == pytest.approx(counted, rel=0.001)


def test_the_longest_pass_is_the_last_that_fits():
    of = Footprint(held=10.0, lines=((5.0, 1.0), (0.0, 2.0)))
    assert of.bytes(of.longest(100)) <= 100 * ROOM < of.bytes(of.longest(100) + 1)
    assert of.longest(10) == 0


def test_a_command_prints_what_fits_on_a_device(base, capsys):
    assert main(["memory", "--base", str(base), "--rank", "4", "--memory", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny: adapters of rank 4, bfloat16: 0.0 GB between passes"
    assert lines[-1].startswith("serve: --trainer-option budget=")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--base", "/nowhere"], "--base: /nowhere: has no config.json that can be read"),
        (["--rank", "0"], "lora_config.rank: 0: pass 1 to 512"),
    ],
)
def test_what_no_trainer_can_have_is_told_in_one_sentence(base, capsys, given, told):
    assert main(["memory", "--base", str(base), *given]) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("sessions: ")]
    assert told in line


def test_an_amount_of_memory_that_cannot_be_is_refused(base, capsys):
    with pytest.raises(SystemExit):
        main(["memory", "--base", str(base), "--memory", "-1"])
    assert "'-1' is not a number of GiB above 0" in capsys.readouterr().err


@_THOROUGH
def test_a_command_says_that_no_pass_fits(base, capsys):
    assert main(["memory", "--base", str(base), "--memory", "0.0001", "--full"]) == 1
    assert "no pass fits into 0.0001 GiB: pass --ranks" in capsys.readouterr().out


@_THOROUGH
def test_an_adapter_of_8_billion_weights_trains_at_32768_tokens_on_80_gb():
    again, kept = (footprint(Plan(_EIGHT, Lora(rank=32), torch.bfloat16, each)) for each in (True, False))
    assert again.longest(80 * 10**9) >= 32768
    assert 6000 < kept.longest(80 * 10**9) < 9000
