"""Selections of devices: what the parser of CEL refuses is told, and what it takes is not."""

from __future__ import annotations

import pytest

from muster.webhook.cli.beside import expressions


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'gpu.nvidia.com'",
        'device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA (H100|H200")',
        "device.capacity['a'].memory.compareTo(quantity('40Gi')) >= 0 && [1, 2][0] != 2",
        "r'a\\' == \"it's\" // ' is not closed here\n && {'a': 1}.a <= 1",
        '"""a " and\na line""" != \'\\\'\'',
        "",
    ],
)
def test_a_right_expression_is_not_told(text):
    assert expressions.wrong(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("device.driver = 'a'", "=="),
        ("device.driver == 'a", "closing '"),
        ("device.driver == 'a\n'", "closing '"),
        ("(a && b", "does not close ("),
        ("a[0)]", "closes )"),
        ("a)", "closes )"),
        ('"""a"', 'closing """'),
        ("a" * 10_241, "characters"),
    ],
)
def test_a_wrong_expression_is_told_with_its_fault(text, why):
    assert why in expressions.wrong(text)
