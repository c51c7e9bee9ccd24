"""Programs run by a Python that has torch and the guard, as in the training images."""

import json
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = str(HERE / "programs" / "ddp.py")
GUARD = HERE.parents[2] / "images" / "guard"


@dataclass(frozen=True)
class Done:
    """How some processes ended, one for each node, and what Kubernetes would have been told."""

    codes: list[int]
    output: str
    messages: list[str]

    def reports(self) -> list[dict]:
        """What ranks reported."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith('{"schema"')]


@pytest.fixture(scope="session")
def python() -> Path:
    named = shutil.which(os.environ.get("MUSTER_TRL_PYTHON", ""))
    if named is None:
        pytest.fail("MUSTER_TRL_PYTHON must name a python that has trl installed; `make contract` does")
    return Path(named)


@pytest.fixture
def nodes(python, tmp_path):
    """Run a command on several "nodes" of loopback at once, each with its own /tmp and termination message."""
    # What the .pth file of the images does; a folder of PYTHONPATH may hold no .pth.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import muster_guard.start\n")
    started = []

    def run(*command, count=1, seconds=120, guarded=True, **environment):
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        outputs = []
        for number in range(count):
            folder = tmp_path / f"node-{len(started)}"
            folder.mkdir()
            (folder / "termination-log").touch()
            known = {
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "CUDA_VISIBLE_DEVICES": "",
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "MUSTER_TERMINATION_LOG": str(folder / "termination-log"),
                "PET_NODE_RANK": str(number),
                "PET_MASTER_ADDR": "127.0.0.1",
                "PET_MASTER_PORT": str(port),
                **({"PYTHONPATH": f"{tmp_path / 'site'}:{GUARD}"} if guarded else {}),
                **environment,
            }
            output = (folder / "log").open("w+")
            outputs.append((folder, output))
            started.append(subprocess.Popen([*command], env=known, stdout=output, stderr=subprocess.STDOUT, cwd=folder))
        codes = [process.wait(seconds) for process in started[-count:]]
        logs, messages = [], []
        for folder, output in outputs:
            output.close()
            logs.append((folder / "log").read_text())
            messages.append((folder / "termination-log").read_text())
        return Done(codes, "\n".join(logs), messages)

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def torchrun(nodes):
    """Run the training of `programs/ddp.py` by torchrun."""

    def run(*arguments, count=1, each=1, **more):
        sizes = {"PET_NNODES": str(count), "PET_NPROC_PER_NODE": str(each)}
        return nodes("torchrun", PROGRAM, *arguments, count=count, **{**sizes, **more})

    return run
