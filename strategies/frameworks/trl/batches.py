"""Batches: numbers of a method that have to fit the number of ranks, and settings that a trainer refuses together.

Sources: trl 1.16.0 `trl/trainer/grpo_config.py`, `rloo_config.py` (`__post_init__`), `generation/vllm_generation.py`;
transformers 5.23 `training_args.py`, `trainer.py`, `trainer_utils.py` (validate_quantization_for_training).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.strategies.documents.findings import Finding, error, note
from muster.strategies.frameworks.trl import numbers, parsing
from muster.strategies.frameworks.trl.arguments import Arguments

__all__ = ["check"]

_Field = Callable[[str], str]
_GROUPED = frozenset({"grpo", "rloo"})
_FEWEST = 2
_MATCHED = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations")


def check(
    method: str, parsed: parsing.ParsedArgs, find_ranks: Callable[[], int | None], field: _Field
) -> Iterator[Finding]:
    """Yield the findings about the numbers and the settings of one invocation.

    Args:
        method: the method of TRL.
        parsed: its arguments; a flag that may stand in a file is not judged.
        find_ranks: returns the number of processes of the training, None when it is not known.
        field: returns the field path of a flag.
    """
    given = Arguments(method, parsed)
    ranks = find_ranks() if method in _GROUPED else None
    if ranks:
        yield from _generations(given, ranks, field)
        yield from _evaluations(given, ranks, field)
        yield from _parallel(given, ranks, field)
    if method in _GROUPED:
        yield from _sizes(given, field)
    yield from _best(given, field)
    yield from _streaming(given, field)
    yield from _strategies(given, field)
    yield from _quantized(given, field)


def _generations(given: Arguments, ranks: int, field: _Field) -> Iterator[Finding]:
    """Compare the answers of one generation with the size of a group, of which it has to hold whole ones."""
    batch, steps, group = (given.number(name) for name in _MATCHED)
    whole, every = given.text("generation_batch_size"), given.text("steps_per_generation")
    if None in (batch, steps, group, whole, every) or not batch or not group:
        return
    made, how = batch * ranks * (steps or 1), f"{batch} x {ranks} ranks x {steps} steps"
    if every:
        steps = numbers.whole(every)
        made, how = batch * ranks * (steps or 0), f"{batch} x {ranks} ranks x {every} steps"
    if whole:
        made, how = numbers.whole(whole) or 0, "--generation_batch_size"
        if made % (batch * ranks) and not every:
            message = (
                f"is not a multiple of the {batch * ranks} answers of one step ({batch} x {ranks} ranks), and TRL "
                "stops at its start; change it or --per_device_train_batch_size"
            )
            yield error(field("generation_batch_size"), made, message, rule="trl/generations")
            return
    if group < _FEWEST:
        message = f"is less than the {_FEWEST} that TRL needs to compare answers, and it stops at its start; raise it"
        yield error(field("num_generations"), group, message, rule="trl/generations")
    elif made and made % group and not (whole and every):
        message = (
            f"the answers of one generation are {made} ({how}), which is not a multiple of the {group} generations of "
            "a prompt, and TRL stops at its start; change --per_device_train_batch_size, --num_generations or "
            "--gradient_accumulation_steps"
        )
        name = next((each for each in (*reversed(_MATCHED),) if each in given.values), "num_generations")
        yield error(field(name), made, message, rule="trl/generations")


def _sizes(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Report sizes of a generation that contradict each other, whatever the number of ranks is."""
    if given.text("generation_batch_size") and given.text("steps_per_generation"):
        message = "each follows from the other, and TRL stops at its start; remove one of the two"
        shown = "--generation_batch_size and --steps_per_generation"
        yield error(field("steps_per_generation"), shown, message, rule="trl/generations")
    if given.text("auto_find_batch_size") == "True":
        message = (
            "would halve the batch until whole groups of answers no longer fit into it, so TRL stops at its start; "
            "remove it, and lower --per_device_train_batch_size"
        )
        yield error(field("auto_find_batch_size"), "--auto_find_batch_size", message, rule="trl/contradiction")


def _evaluations(given: Arguments, ranks: int, field: _Field) -> Iterator[Finding]:
    """Compare the batch of an evaluation with the size of a group, where the training evaluates."""
    strategy, own = given.text("eval_strategy"), given.text("num_generations_eval")
    size = given.number("per_device_eval_batch_size")
    group = numbers.whole(own) if own else given.number("num_generations")
    if strategy in (None, "", "no") or own is None or not size or not group or size * ranks % group == 0:
        return
    message = (
        f"the answers of one evaluation are {size * ranks} ({size} x {ranks} ranks), which is not a multiple of the "
        f"{group} generations of a prompt, and TRL stops at its start; change --per_device_eval_batch_size or "
        "--num_generations_eval"
    )
    yield error(field("per_device_eval_batch_size"), size * ranks, message, rule="trl/generations")


def _streaming(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Report a dataset without a length and without a number of steps (transformers `trainer.py`)."""
    if given.values.get("dataset_streaming") is True and given.text("max_steps") in ("-1", "0"):
        message = "reads a dataset without a length, and TRL stops at its start without --max_steps; add it"
        yield error(field("dataset_streaming"), "--dataset_streaming", message, rule="trl/contradiction")


def _parallel(given: Arguments, ranks: int, field: _Field) -> Iterator[Finding]:
    size = given.number("vllm_tensor_parallel_size")
    if given.text("use_vllm") != "True" or given.text("vllm_mode") != "colocate" or not size or ranks % size == 0:
        return
    message = f"does not divide the {ranks} ranks of the training, and TRL stops at its start; choose one that does"
    name = "vllm_tensor_parallel_size"
    yield error(field(name), f"--{name} {size}", message, rule="trl/vllm-size")


def _best(given: Arguments, field: _Field) -> Iterator[Finding]:
    saving, evaluating = given.text("save_strategy"), given.text("eval_strategy")
    if given.text("load_best_model_at_end") != "True" or saving is None or evaluating is None or saving == "best":
        return
    if saving != evaluating:
        message = (
            f"needs the same strategy for saving ({saving}) and evaluating ({evaluating}), and TRL stops at its start; "
            f"set --eval_strategy {saving}, or remove it"
        )
        name = "load_best_model_at_end"
        yield error(field(name), f"--{name}", message, rule="trl/contradiction")
    elif saving == "steps":
        every = given.number("save_steps")
        evaluated = given.number("logging_steps" if given.text("eval_steps") == "" else "eval_steps")
        if every and evaluated and every % evaluated:
            message = (
                f"is not a multiple of the {evaluated} steps between two evaluations, which --load_best_model_at_end "
                "needs, and TRL stops at its start; change one of the two"
            )
            yield error(field("save_steps"), every, message, rule="trl/contradiction")


def _strategies(given: Arguments, field: _Field) -> Iterator[Finding]:
    fsdp, deepspeed = given.values.get("fsdp"), given.values.get("deepspeed")
    if fsdp and deepspeed and str(fsdp).lower() not in ("false", "no", "none"):
        message = "--fsdp and --deepspeed cannot both be used, and TRL stops at its start; remove one of them"
        yield error(field("deepspeed"), "--deepspeed", message, rule="trl/contradiction")


def _quantized(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Note a quantized model without adapters; a model that is itself an adapter may bring some."""
    name = next((each for each in ("load_in_4bit", "load_in_8bit") if given.values.get(each) is True), "")
    if name and given.text("use_peft") == "False":
        message = (
            "loads a model that cannot be trained without adapters, and Muster cannot see whether the model is an "
            "adapter; the trainer stops at the start of any other; add --use_peft, or remove it"
        )
        yield note(field(name), f"--{name}", message, rule="trl/contradiction")
