"""Runs launchers and their programs in forks of a process that has imported torch, accelerate and modules by name.

They are upstream's own functions; what is not real are the devices, since there are none: FAKE_GPUS is how many a
launcher counts, as far as CUDA_VISIBLE_DEVICES shows them, and a rank without a device of its own ends with an error.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

import accelerate.commands.accelerate_cli
import accelerate.commands.launch
import accelerate.utils.launch
import torch
import torch.distributed.run


def main():
    """Serve at the path that is the first argument, until the input ends; import the others, and say so when ready."""
    for name in sys.argv[2:]:
        importlib.import_module(name)
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            watch(connection)
        connection.close()


def watch(connection):
    """Fork the program, tell its number and then its code; end it when nobody waits for it any more."""
    data, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 20)
    number = os.fork()
    if number == 0:
        connection.close()
        become(json.loads(data), fds)
    for each in fds:
        os.close(each)
    connection.sendall(f"{number}\n".encode())
    process = os.pidfd_open(number)
    ready, _, _ = select.select([process, connection], [], [])
    if process not in ready:
        os.kill(number, signal.SIGKILL)
    _, status = os.waitpid(number, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(asked, fds):
    """Run what was asked for in this process."""
    for number, each in enumerate(fds):
        os.dup2(each, number)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.path[0:0] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    sys.path.insert(0, asked["cwd"])
    sys.executable = str(Path(os.environ["STARTERS"], "python"))
    if "muster_guard.start" in sys.modules:  # the server was started with the guard: it begins anew
        importlib.reload(sys.modules["muster_guard.start"])
    code = 1
    try:
        start(asked["name"], asked["words"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException as error:  # noqa: BLE001  # as an interpreter would
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        traceback.print_exc()
    threading._shutdown()  # as an interpreter does at its end
    atexit._run_exitfuncs()  # as above
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def start(name, words):
    """Run a program by its name."""
    sys.argv = [name, *words]
    if name.startswith("python"):
        interpret(words)
        return
    show_devices()
    if name == "torchrun":
        torch.distributed.run.main(words)
    elif name == "accelerate":
        accelerate.commands.accelerate_cli.main()
    elif name == "tune":
        sys.modules["torchtune._cli.tune"].main()
    elif name == "trl":
        sys.exit(sys.modules["trl.cli.main"].main(words))


def interpret(words):
    """Read `python [-u] [-m module | file] words`."""
    words = [word for number, word in enumerate(words) if word != "-u" or number]
    module = words[0] == "-m"
    target, rest = (words[1], words[2:]) if module else (words[0], words[1:])
    sys.argv = [target, *rest]
    if module and target == "torch.distributed.run":
        start("torchrun", rest)
    elif module and target == "accelerate.commands.launch":
        start("accelerate", ["launch", *rest])
    elif "REPORTS" in os.environ and (
        (module and target == "trl.scripts.sft") or target.endswith("trl/scripts/sft.py")
    ):
        train()
    elif module:
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(target, run_name="__main__")


def train():
    """What TRL's script does first: its parser makes the training's arguments, and these meet the other ranks."""
    import world  # noqa: PLC0415  # beside the programs, on PYTHONPATH

    parsed = sys.modules["trl.scripts.sft"].make_parser().parse_args_and_config()
    (arguments,) = (each for each in parsed if hasattr(each, "world_size"))
    world.report(arguments.world_size, arguments.process_index)


def show_devices():
    """Let a launcher count the devices that there would be."""
    count = int(os.environ.get("FAKE_GPUS", "0"))
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = count if shown is None else min(count, len([each for each in shown.split(",") if each]))
    accelerate.utils.launch.is_port_in_use = lambda *_: False  # the nodes share one host here, and only here
    limit_port(int(os.environ["FREE_PORT"]))
    if count:
        torch.cuda.is_available = torch.accelerator.is_available = lambda: True
        torch.cuda.device_count = torch.accelerator.device_count = lambda: count
        torch.cuda.get_device_name = lambda *_: "NVIDIA H100"
        torch.accelerator.current_accelerator = lambda *_: torch.device("cuda")


def limit_port(port):
    """Put a free port where accelerate writes 29500 of its own accord."""
    prepare = accelerate.commands.launch.prepare_multi_gpu_env

    def prepared(args):
        args.main_process_port = port if args.main_process_port is None else args.main_process_port
        return prepare(args)

    accelerate.commands.launch.prepare_multi_gpu_env = prepared


main()
