"""Debian's PostgreSQL server, as a process of an unprivileged user, with its data in a folder of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

BIN = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nowhere"))
IS_THERE = (BIN / "initdb").exists() and (os.geteuid() != 0 or shutil.which("setpriv") is not None)
_NUMBERS = itertools.count()


class Server:
    """One server on a Unix socket; `url` gives a new, empty database each time."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # pytest's folders are closed to other users
        if os.geteuid() == 0:
            os.chown(self.folder, 65534, 65534)
        self._pid = 0
        self._as_nobody("initdb", "-D", "data", "-U", "muster", "--no-sync", "-A", "trust", "-E", "UTF8", "--locale=C")
        self.start()

    def _as_nobody(self, program: str, *args: str) -> None:
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        with (self.folder / "output").open("ab") as output:
            subprocess.run([*user, BIN / program, *args], check=True, cwd=self.folder, stdout=output, stderr=output)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=60"
        self._as_nobody("pg_ctl", "-D", "data", "-w", "-t", "120", "-l", "log", "-o", options, "start")
        self._pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """End it as a crash does: what was not committed is gone, and connections are closed."""
        self._as_nobody("pg_ctl", "-D", "data", "-w", "-t", "120", "-m", "immediate", "stop")

    def pause(self) -> None:
        """Have it and all that serve its connections stand still: they are there, and say nothing."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        for pid in (self._pid, *map(int, children)):
            os.kill(pid, number)

    def url(self) -> str:
        name = f"journal{next(_NUMBERS)}"
        self._as_nobody("createdb", "-h", str(self.folder), "-U", "muster", name)
        return f"postgresql://muster@/{name}?host={self.folder}"

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
