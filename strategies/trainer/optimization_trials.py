"""Trials: the TrainJobs that Trainer makes of an OptimizationJob, and what is found about them as findings about it.

Trainer writes the value of each parameter into the env of a trial, and nothing into its text (trainer
`proposals/2605-optimization-job-crd`, `pkg/controller/optimizationjob_controller.go` of #3828, which is not merged). An
author brings a value into `command` or `args` by `$(KUBEFLOW_TRAINER_OPT_NAME)`, which Kubernetes replaces. Two trials
stand for all: one with the first value of each search space, one with the last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, model, names, paths, trainjobs
from muster.strategies.documents.findings import Finding, Severity

__all__ = ["PREFIX", "Trial", "of_template", "told", "trials"]

PREFIX = "KUBEFLOW_TRAINER_OPT_"
"""How the variable of a parameter begins."""
TEMPLATE = "spec.trainJobTemplate"
_REFERENCE = re.compile(r"\$(\$)?\(" + PREFIX + r"(\w+)\)")
_NAMED = 3  # parameters whose values one finding tells
_LONGEST = 63 - len("-trial-") - 8  # characters of the name that Trainer keeps


class Trial(Struct, frozen=True):
    """One TrainJob that Trainer may make.

    Attributes:
        document: the TrainJob.
        values: of its parameters, by their names.
    """

    document: Mapping[str, Any]
    values: Mapping[str, str]


def trials(optimization_job: Mapping[str, Any]) -> Sequence[Trial]:
    """Return the first and the last trial; one where they are the same.

    Args:
        optimization_job: an OptimizationJob; what has another shape in it than Trainer defines counts as missing.
    """
    parameters = decoding.read(optimization_job, model.OptimizationJob).spec.parameters
    ends = [(each.name, _ends(each.search_space)) for each in parameters]
    first, last = ({name: found[end] for name, found in ends if found and name} for end in (0, -1))
    found = [Trial(_trainjob(optimization_job, values), values) for values in (first, last)]
    return found[:1] if first == last else found


def _ends(space: model.SearchSpace) -> Sequence[str]:
    numbers = space.uniform or space.log_uniform
    if numbers is None:
        return space.categorical.choices
    with contextlib.suppress(ValueError):  # the API server refuses what is no number
        kind = int if numbers.type == "Int" else float
        return [str(kind(each)) for each in (numbers.min, numbers.max)]  # as the search service writes them
    return ()


def _trainjob(optimization_job: Mapping[str, Any], values: Mapping[str, str]) -> Mapping[str, Any]:
    template = decoding.member(optimization_job, "spec", "trainJobTemplate")
    spec, around = template.get("spec"), decoding.member(optimization_job, "metadata")
    name = str(around.get("name") or f"{around.get('generateName', '')}xxxxx")[:_LONGEST].rstrip("-")
    metadata = {key: value for key, value in decoding.member(template, "metadata").items() if key in trainjobs.META}
    metadata |= {key: around[key] for key in ("namespace",) if key in around}
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": f"{name}-trial-xxxxxxxx", **metadata},
        "spec": {**spec, "trainer": _trainer(spec.get("trainer"), values)} if isinstance(spec, dict) else spec,
    }


def _trainer(trainer: Any, values: Mapping[str, str]) -> Any:
    """Return `spec.trainer` of a trial; what is no object, or holds no list where one is wanted, stays as it is."""
    if not isinstance(trainer, dict | None) or not isinstance((trainer or {}).get("env"), list | None):
        return trainer
    out: dict[str, Any] = dict(trainer or {})
    for member in ("command", "args"):
        if isinstance(out.get(member), list):
            out[member] = [_replaced(each, values) if isinstance(each, str) else each for each in out[member]]
    if values:
        out["env"] = [*(out.get("env") or ()), *({"name": PREFIX + name, "value": values[name]} for name in values)]
    return out


def _replaced(word: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: found[0] if found[1] else values.get(found[2], found[0]), word)


def of_template(field: str) -> str:
    """Return the field of an OptimizationJob for a field of its trials; what is none of these stays as it is."""
    is_own = field.startswith(("spec", "metadata.labels", "metadata.annotations"))
    return f"{TEMPLATE}.{field}" if is_own else field


def told(optimization_job: Mapping[str, Any], found: Sequence[tuple[Trial, Sequence[Finding]]]) -> list[Finding]:
    """Return what was found about trials as findings about their OptimizationJob.

    What all trials have in common is told once. What depends on a parameter names its value.

    Args:
        optimization_job: the OptimizationJob.
        found: the trials with what was found about each.
    """
    common = set.intersection(*({each.identity for each in every} for _, every in found))
    out, known = [], set[tuple[Severity, str, str]]()
    for trial, every in found:
        here = [each for each in every if (each.severity, each.rule, each.field) not in known]
        known |= {(each.severity, each.rule, each.field) for each in here}
        for each in here:
            field, message = of_template(each.field), each.message
            if each.identity not in common:
                message += f" (in a trial with {_valued(optimization_job, field, trial)})"
            out.append(dataclasses.replace(each, field=field, message=message))
    return out


def _valued(optimization_job: Mapping[str, Any], field: str, trial: Trial) -> str:
    """Return the values on which a finding may depend: of what its field names, else of what the template names."""
    template = decoding.member(optimization_job, "spec", "trainJobTemplate")
    here = paths.lookup(optimization_job, paths.nearest(optimization_job, field))
    named = next(filter(None, (list(_named(each, trial)) for each in (here, template))), list(trial.values))
    some = ", ".join(f"{name}={trial.values[name]}" for name in named[:_NAMED])
    return f"{some} and {len(named) - _NAMED} more values" if len(named) > _NAMED else some


def _named(part: object, trial: Trial) -> Iterator[str]:
    text = json.dumps(part, default=str)
    return (name for name in trial.values if re.search(rf"{PREFIX}{re.escape(name)}\b", text))
