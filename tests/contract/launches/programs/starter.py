"""Stands on PATH for a launcher and for python: has a fork server run it, with the same words, env, folder and output.

It imports nothing that takes time; what takes time, torch, the fork server has imported already.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path


def main():
    """Ask, pass signals on, and end with the code of the program."""
    name, folder = sys.argv[0].rpartition("/")[2], str(Path.cwd())
    asked = {"name": name, "words": sys.argv[1:], "env": {**os.environ, "STARTED_BY": str(os.getppid())}, "cwd": folder}
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.environ["FORK_SERVER"])
    socket.send_fds(server, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
    answers = server.makefile()
    number = int(answers.readline())

    def forward(received, _):
        os.kill(number, received)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    code = int(answers.readline() or 1)
    sys.exit(code if code >= 0 else 128 - code)


main()
