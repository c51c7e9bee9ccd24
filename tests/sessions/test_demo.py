from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree as ET

from tests.sessions.gateways import ROOT


def test_the_demonstration_comes_to_a_mean_reward_of_one_and_draws_it(tmp_path):
    command = [sys.executable, "-m", "muster.sessions.demo", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the last mean reward is 1.00" in done.stdout
    assert done.stdout.count("  step ") == 10
    picture = ET.fromstring((tmp_path / "reward.svg").read_text())  # noqa: S314  # written by what is tested
    assert len(picture.findall(".//{*}circle")) == 10
