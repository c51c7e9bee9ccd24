"""Machines: the GPUs of a node by the name of its instance type."""

from __future__ import annotations

import pytest

from muster.strategies.platform import machines

KNOWN = {
    "g4dn.xlarge": 1,
    "g4dn.12xlarge": 4,
    "p4d.24xlarge": 8,
    "p5.48xlarge": 8,
    "m5.24xlarge": 0,
    "c7g.metal": 0,
    "trn1.32xlarge": 0,
    "a2-highgpu-2g": 2,
    "a2-megagpu-16g": 16,
    "a3-megagpu-8g": 8,
    "g2-standard-24": 2,
    "e2-standard-8": 0,
    "Standard_NC24ads_A100_v4": 1,
    "Standard_ND96isr_H100_v5": 8,
    "Standard_D8s_v5": 0,
}


@pytest.mark.parametrize(("name", "count"), KNOWN.items())
def test_a_name_says_how_many_gpus_there_are(name, count):
    assert machines.gpus(name) == count


@pytest.mark.parametrize(
    "name", ["", "n1-standard-8", "g9.xlarge", "p5.2xlarge", "Standard_NZ8_v9", "metal", "a2-ultra"]
)
def test_other_names_say_nothing(name):
    assert machines.gpus(name) is None
