"""What the package imports, and what it shows."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from muster import certs

MODULES = sorted(module.name for module in pkgutil.iter_modules(certs.__path__))
LIGHT = ["contexts", "errors", "expiries", "files", "followers", "material_sources", "probes", "subject_names"]


def _imported_by(modules):
    code = f"import sys; from muster.certs import {', '.join(modules)}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    names = result.stdout.split()
    return {name.partition(".")[0] for name in names} | {name for name in names if name.startswith("muster.")}


def test_serving_costs_no_cryptography_until_a_certificate_is_made():
    assert "cryptography" not in _imported_by(LIGHT)


def test_certificates_know_nothing_of_jobs_or_http():
    imported = _imported_by(MODULES)
    assert {"aiohttp", "kubernetes", "pydantic", "torch", "prometheus_client"}.isdisjoint(imported)
    assert not [name for name in imported if name.startswith("muster.") and not name.startswith("muster.certs")]


@pytest.mark.parametrize("name", MODULES)
def test_each_module_exports_exactly_its_public_definitions(name):
    module = importlib.import_module(f"muster.certs.{name}")
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert defined <= set(module.__all__)
    assert all(hasattr(module, key) for key in module.__all__)
