"""An engine that does what it is told by its standard input: `hold`, `done`, `leave`, and lies when it is asked to.

Its memory is real: so many bytes, which it copies to the device and to the host; with the word `cuda` the device is a
GPU. What it did is on its output.
"""

import ctypes
import sys
import threading
from pathlib import Path

from muster.sessions.devices.client import Turn
from muster.sessions.devices.lines import Join

path, session, size, *lies = sys.argv[1:]
if "cuda" in lies:
    import torch
libc = ctypes.CDLL(None)
place = {"host": bytearray(b"w" * (int(size) << 20)), "device": None}
lock = threading.Lock()


def say(text):
    print(text, flush=True)


def copied(data, target):
    if "cuda" not in lies:
        return bytearray(data)
    if target == "device":
        return torch.frombuffer(data, dtype=torch.uint8).cuda()
    return bytearray(data.cpu().numpy())


def move(source, target):
    place[target] = copied(place[source], target)
    place[source] = None
    libc.malloc_trim(0)
    if "cuda" in lies:
        torch.cuda.empty_cache()


def enter():
    move("host", "device")
    say("entered")


def away():
    if "lies" not in lies:
        move("device", "host")
    say("away")


def woken():
    """Leave, or join the next agent, as soon as no line is followed: a wish that came meanwhile is not lost."""
    with lock:
        if turn.is_to_leave:
            turn.leave()
        elif turn.is_lost:
            turn.come()


turn = Turn(Path(path), Join(session, "engine"), enter, away, lambda: threading.Thread(target=woken).start())
say("joined")
for line in sys.stdin:
    with lock:
        match line.strip():
            case "hold":
                turn.hold()
                say("holds")
            case "done":
                turn.done()
                if turn.is_to_leave:
                    turn.leave()
            case "leave":
                turn.leave()
            case "steal":
                move("host", "device")
