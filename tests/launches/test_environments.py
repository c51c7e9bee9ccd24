"""The values of variables that a container's own document tells."""

from __future__ import annotations

import pytest

from muster.strategies.documents import decoding, model
from muster.strategies.launches import sites


def told(*env, name="node", replaced=frozenset(), **resources):
    container = decoding.read({"env": env, "resources": resources}, model.Container)
    found = sites.known(container.env, name, container.resources, replaced)
    return {each.name: each.literal for each in found}


def amount(name, resource, **more):
    return {"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}


def text(name, value):
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "4"),
        ("limits.cpu", "1m", "3500"),
        ("requests.cpu", None, "4"),
        ("requests.memory", "1Gi", "2"),
        ("limits.memory", "1Gi", None),
        ("limits.cpu", "none", None),
    ],
)
def test_an_amount_is_divided_and_rounded_up(resource, divisor, value):
    asked = amount("N", resource, **({"divisor": divisor} if divisor else {}))

    assert told(asked, limits={"cpu": "3500m"}, requests={"memory": "1537Mi"})["N"] == value


def test_an_amount_of_another_container_is_not_known():
    assert told(amount("N", "limits.cpu", containerName="helper"), limits={"cpu": 4})["N"] is None
    assert told(amount("N", "limits.cpu", containerName="node"), limits={"cpu": 4})["N"] == "4"


def test_a_value_takes_what_stands_before_it():
    assert told(text("A", "1"), text("B", "$(A)$(A)"), text("C", "$(B)")) == {"A": "1", "B": "11", "C": "11"}
    assert told(text("B", "$(A)"), text("A", "1")) == {"B": "$(A)", "A": "1"}
    assert told(text("A", "$$(B)"), text("B", "$(A)")) == {"A": "$$(B)", "B": "$(A)"}


def test_a_variable_that_is_replaced_later_is_not_read():
    assert told(text("A", "1"), text("B", "$(A)"), replaced=frozenset({"A"}))["B"] == "$(A)"


def test_values_that_name_each_other_do_not_grow_without_end():
    env = [text("V0", "x" * 1000), *(text(f"V{n}", f"$(V{n - 1})" * 100) for n in range(1, 200))]

    assert sum(map(len, told(*env).values())) < 1_000_000
