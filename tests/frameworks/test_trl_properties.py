"""trl: whatever the arguments, a rewritten job's script gets just what it was given, and nothing is rewritten twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.frameworks.trl import flags
from muster.strategies.launches.launches import STRICT
from tests.frameworks.builders import enforce, found, gpus, runtime, trainjob
from tests.support import limits

TABLE = flags._table()
METHODS = sorted(flags.methods())
LAUNCHER = {name: entry for name, entry in TABLE["launcher"].items() if name not in ("help", "accelerate_config")}
FORMS = ("trl", "/opt/bin/trl", "python -m trl", "torchrun --no-python trl", "torchrun --nproc_per_node=2 -m trl")
VALUES = {"int": "2", "float": "0.5", "bool": "true", "dict": '{"a": 1}'}


def spelled(name, entry):
    """One flag as argparse takes it, in one of its spellings."""
    flag = st.sampled_from(entry.get("spellings") or [f"--{name}", f"--{name.replace('_', '-')}"])
    value = (entry.get("choices") or [VALUES.get(entry["type"].partition("|")[0], "x y")])[0]
    if entry["nargs"] == 0:
        return flag.map(lambda written: [written])
    attached = flag.map(lambda written: [f"{written}={value}"])
    apart = flag.map(lambda written: [written, value])
    if entry["nargs"] == "+":
        return apart | flag.map(lambda written: [written, value, value])
    return attached | apart | flag.map(lambda written: [written]) if entry["nargs"] == "?" else attached | apart


def some_of(entries):
    return st.sampled_from(sorted(entries)).flatmap(lambda name: spelled(name, entries[name]))


PRESETS = st.sampled_from([*sorted(flags.presets()), "/etc/my.yaml"]).map(lambda name: ["--accelerate_config", name])
ODD = st.sampled_from([["$(MORE)"], ["--unknown=1"], ["--$(FLAG)=1"], ["word"], ["--config", "f.yaml"]])


@st.composite
def arguments(draw, launcher=True):
    """(method, arguments) with flags of the script, of accelerate, and others in any order."""
    method = draw(st.sampled_from(METHODS))
    script = some_of(TABLE["common"] | TABLE["methods"][method])
    pieces = st.one_of(script, script, ODD, *((some_of(LAUNCHER), PRESETS) if launcher else ()))
    return method, [word for piece in draw(st.lists(pieces, max_size=6)) for word in piece]


def scripts(method, words):
    """What of the arguments a script must see."""
    foreign = flags.parse(method, words).launcher_tokens
    return [word for index, word in enumerate(words) if index not in foreign]


def arguments_of(argv, method):
    """The arguments behind `-m trl.scripts.METHOD`, the text that reads a file strictly, or `trl METHOD`."""
    starts = (f"trl.scripts.{method}", STRICT.format(f"trl.scripts.{method}"), method)
    return argv[next(index for index, word in enumerate(argv) if word in starts) + 1 :]


def enforced(form, method, args, *, nodes, devices=4):
    trainer = {"command": [*form.split(), method], "args": args, "numNodes": nodes}
    governing = runtime("trl", resources=gpus(devices))
    return enforce("trl", trainjob(trainer), governing), governing


@given(arguments(), st.sampled_from(FORMS), st.sampled_from([1, 2]), st.sampled_from([1, 4]))
@limits.MANY
def test_the_scripts_own_arguments_survive_in_order(given_, form, nodes, devices):
    method, args = given_
    out, _ = enforced(form, method, args, nodes=nodes, devices=devices)
    assert scripts(method, arguments_of(out.argv, method)) == scripts(method, args)


@given(arguments(launcher=False), st.sampled_from(FORMS), st.sampled_from([1, 2]))
@limits.SOME
def test_without_flags_of_accelerate_no_argument_is_touched(given_, form, nodes):
    method, args = given_
    out, _ = enforced(form, method, args, nodes=nodes)
    assert out.container["args"] == args
    assert [change.path for change in out.changes] in ([], ["/spec/trainer/command"])


@given(arguments(), st.sampled_from(FORMS), st.sampled_from([1, 2]), st.sampled_from([1, 4]))
@limits.MANY
def test_a_second_pass_changes_nothing(given_, form, nodes, devices):
    out, governing = enforced(form, *given_, nodes=nodes, devices=devices)
    assert len(enforce("trl", out.document, governing).changes) == 0


@given(arguments(), st.sampled_from(("trl", "python -m trl")), st.sampled_from([1, 4]))
@limits.SOME
def test_on_one_node_flags_of_accelerate_are_only_touched_where_a_preset_brings_eight_processes(given_, form, devices):
    method, args = given_
    parsed = flags.parse(method, args)
    out, _ = enforced(form, method, args, nodes=1, devices=devices)
    preset = parsed.launcher_values.get("accelerate_config")
    if parsed.launcher_values and preset not in set(flags.presets()) - {"single_gpu"}:
        assert len(out.changes) == 0


@given(arguments(), st.sampled_from(FORMS))
@limits.SOME
def test_on_two_nodes_a_launch_spans_them_or_is_refused(given_, form):
    method, args = given_
    out, governing = enforced(form, method, args, nodes=2)
    launched = flags.parse(method, arguments_of(out.argv, method)).launcher_values
    spans = f"trl.scripts.{method}" in " ".join(out.argv) or launched.get("num_machines") == "2"
    assert spans or "trl/launch" in {each.rule for each in found("trl", out.document, governing)}


@given(arguments())
@limits.SOME
def test_validation_names_a_word_that_is_there(given_):
    method, args = given_
    document = trainjob({"command": ["trl", method], "args": args})
    words = {f"spec.trainer.args[{index}]" for index in range(len(args))} | {
        "spec.trainer.args",
        "spec.trainer.command",
    }
    assert {each.field for each in found("trl", document, runtime("trl", resources=gpus(1)))} <= words
