"""Runs the demonstration: `python -m muster.sessions.demo FOLDER`."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]


def main() -> int:
    """Serve a Gateway, train through it, show the reward; 0 when the mean reward came to 1.00."""
    parser = argparse.ArgumentParser(prog="python -m muster.sessions.demo", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="for the model, the journal and the picture")
    folder = parser.parse_args().folder.resolve()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    for library in ("tinker", "torchao"):  # one warns of each poll, the other of a version that nothing here needs
        logging.getLogger(library).setLevel(logging.ERROR)
    from muster.sessions.demo import tiny  # noqa: PLC0415  # after the environment

    began = time.monotonic()
    base = tiny.make(folder / "models" / "muster" / "tiny")
    print(f"made a model of {sum(each.stat().st_size for each in base.iterdir()) >> 10} KiB in {base}")
    command = [sys.executable, "-m", "muster.sessions.cli"]
    made = [*command, "keys", "create", "demo", "--root", str(folder)]
    key = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    gateway = subprocess.Popen(
        [*command, "serve", "--root", str(folder), "--base", str(base), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        return _train(gateway, key, base, folder, began)
    finally:
        gateway.terminate()
        gateway.wait()


def _train(gateway: subprocess.Popen[str], key: str, base: Path, folder: Path, began: float) -> int:
    import tinker  # noqa: PLC0415  # after the environment

    from muster.sessions.demo import loop, plots  # noqa: PLC0415  # as above

    line = gateway.stdout.readline().strip() if gateway.stdout else ""
    if "http" not in line:
        print("the Gateway did not start", file=sys.stderr)
        return 1
    print(line)
    with tinker.ServiceClient(base_url=line.rsplit(" ", 1)[1], api_key=key) as service:
        steps = loop.train(service, str(base), lambda step: print(plots.text(step), flush=True))
    picture = folder / "reward.svg"
    picture.write_text(plots.svg(steps))
    print(f"the last mean reward is {steps[-1].reward:.2f}; {time.monotonic() - began:.0f} s; {picture}")
    return 0 if steps[-1].reward == 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
