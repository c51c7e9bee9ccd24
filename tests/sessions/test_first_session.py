"""The page for a first session on Kubernetes: its certificate and its program, against a Gateway of this machine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.sessions.gateways import ROOT, Gateway

PAGE = (ROOT / "docs" / "sessions.md").read_text().partition("## A first session on Kubernetes")[2]
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


class Paged(Gateway):
    """A Gateway with the certificate of the page, under the name that the page gives its model."""

    def __init__(self, folder):
        super().__init__(folder)
        for line in re.findall(r"^openssl .*$", PAGE, re.MULTILINE):
            subprocess.run([OPENSSL, *shlex.split(line)[1:]], check=True, capture_output=True, cwd=folder)
        (name,) = re.findall(r"model: {name: (\w+)}", PAGE)
        self.ENGINES = (*Gateway.ENGINES, "--tls", str(folder), "--name", name)


def test_the_program_of_the_page_trains_and_samples_through_its_certificate(tmp_path):
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (exported,) = re.findall(r"^export (TINKER_BASE_URL.*)$", PAGE, re.MULTILINE)
    told = dict(each.split("=", 1) for each in shlex.split(exported))
    assert told.keys() == {"TINKER_BASE_URL", "TINKER_API_KEY", "TINKER_TELEMETRY", "SSL_CERT_FILE"}
    with Paged(tmp_path) as gateway:
        told["TINKER_BASE_URL"] = told["TINKER_BASE_URL"].replace("8443", str(gateway.port))
        told["TINKER_API_KEY"], told["SSL_CERT_FILE"] = gateway.key, str(tmp_path / "ca.crt")
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            timeout=120,
        )
    *steps, sampled = done.stdout.splitlines()
    assert len(steps) == 5, done.stderr
    losses = [float(re.search(r"'loss:sum': ([-0-9.e]+)", each).group(1)) for each in steps]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    assert re.fullmatch(r"\[\d+, \d+, \d+, \d+\]", sampled)
