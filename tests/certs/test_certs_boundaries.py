"""What the package imports, and what it shows."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from muster import certs

MODULES = sorted(module.name for module in pkgutil.iter_modules(certs.__path__))
LIGHT = ["contexts", "errors", "expiries", "files", "followers", "probes", "sources", "subject_names"]


def _imported_by(modules):
    code = f"import sys; from certs import {', '.join(modules)}; print(*(m.partition('.')[0] for m in sys.modules))"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(result.stdout.split())


def test_serving_costs_no_cryptography_until_a_certificate_is_made():
    assert "cryptography" not in _imported_by(LIGHT)


def test_certificates_know_nothing_of_jobs_or_http():
    forbidden = {"webhook", "strategies", "aiohttp", "kubernetes", "pydantic", "torch", "prometheus_client"}
    assert forbidden.isdisjoint(_imported_by(MODULES))


@pytest.mark.parametrize("name", MODULES)
def test_each_module_exports_exactly_its_public_definitions(name):
    module = importlib.import_module(f"certs.{name}")
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert defined <= set(module.__all__)
    assert all(hasattr(module, key) for key in module.__all__)
