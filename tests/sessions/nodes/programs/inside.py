"""A program in a control group, as a kubelet has the processes of a pod in one."""

import os
import sys
from pathlib import Path

group, *command = sys.argv[1:]
(Path(group) / "cgroup.procs").write_text(str(os.getpid()))
os.execv(sys.executable, [sys.executable, *command])  # noqa: S606  # a test's own program
