"""Starters: the numbers of processes that stand in the text of a Python program, however it is written."""

from __future__ import annotations

import threading

import pytest

from muster.strategies.launches import readings, spawns

LIGHTNING = "import lightning as L\n"
SEEN = {
    "numbers": (LIGHTNING + "L.Trainer(devices=4, num_nodes=2)", ("4", "2")),
    "defaults": (LIGHTNING + "L.Trainer()", ("auto", "1")),
    "all devices": (LIGHTNING + "L.Trainer(devices=-1)", ("auto", "1")),
    "all devices as a text": (LIGHTNING + "L.Trainer(devices='-1')", ("auto", "1")),
    "a list": (LIGHTNING + "L.Trainer(devices=[0, 2])", ("2", "1")),
    "a list as a text": (LIGHTNING + "L.Trainer(devices='0,2')", ("2", "1")),
    "None": (LIGHTNING + "L.Trainer(num_nodes=None)", ("auto", "1")),
    "a constant": (LIGHTNING + "N = 2\nL.Trainer(num_nodes=N)", ("auto", "2")),
    "a constant with two values": (LIGHTNING + "N = 2\nN = 4\nL.Trainer(num_nodes=N)", ("auto", "$")),
    "a parameter": (LIGHTNING + "def f(N):\n    L.Trainer(num_nodes=N)", ("auto", "$")),
    "a variable": (LIGHTNING + "L.Trainer(num_nodes=int(os.environ['N']))", ("auto", "$(N)")),
    "a variable with a default": (LIGHTNING + "L.Trainer(num_nodes=int(os.getenv('N', 1)))", ("auto", "${N:-1}")),
    "what torch counts": (LIGHTNING + "L.Trainer(devices=torch.cuda.device_count())", ("auto", "1")),
    "keywords that are not seen": (LIGHTNING + "L.Trainer(devices=4, **more)", ("4", "$")),
    "an expression": (LIGHTNING + "L.Trainer(devices=4 if x else 2)", ("$", "1")),
    "two that agree": (LIGHTNING + "L.Trainer(devices=4)\nL.Trainer(devices=4)", ("4", "1")),
    "two that differ": (LIGHTNING + "L.Trainer(devices=4)\nL.Trainer(devices=1)", ("$", "1")),
    "the older package": ("import pytorch_lightning as pl\npl.Trainer(devices=4)", ("4", "1")),
    "a name that was imported": ("from lightning.pytorch import Trainer as T\nT(devices=4)", ("4", "1")),
    "a strategy": (LIGHTNING + "L.Trainer(devices=4, strategy=DDPStrategy(static_graph=True))", ("4", "1")),
}
UNSEEN = {
    "another Trainer": "from transformers import Trainer\nTrainer(devices=4)",
    "a Trainer of one's own": "class Trainer: ...\nTrainer(devices=4)",
    "a plugin": LIGHTNING + "L.Trainer(devices=4, plugins=[x])",
    "a strategy of another package": LIGHTNING + "L.Trainer(devices=4, strategy=RayDDPStrategy())",
    "several kinds": LIGHTNING + "import torch.multiprocessing as mp\nL.Trainer()\nmp.spawn(f)",
    "no Python": LIGHTNING + "L.Trainer(devices=4",
    "a line that is long": LIGHTNING + "L.Trainer(devices=4)  # " + "x" * 1_000,
}
HOSTILE = {
    "signs": "x = Trainer(" + "-\\\n" * 9_000 + "1)",
    "sums": "Trainer(\n" + "+\n".join(["a"] * 10_000) + ")",
    "brackets": "Trainer" + "(\n" * 15_000,
    "conditions": "Trainer(1)\nx=" + "a if a else\\\n" * 2_000 + "1",
    "a null byte": "Trainer(\0)",
}


@pytest.mark.parametrize(("text", "numbers"), SEEN.values(), ids=SEEN)
def test_devices_and_nodes_of_lightning_are_read(text, numbers):
    found = spawns.read(text)
    assert (found["devices"], found["num_nodes"]) == numbers


@pytest.mark.parametrize("text", UNSEEN.values(), ids=UNSEEN)
def test_what_another_decides_is_not_read(text):
    assert spawns.read(text) == {}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_program_is_not_read_also_on_a_small_stack(text):
    found = []
    thread = threading.Thread(target=lambda: found.append(spawns.read(text[:32_768])))
    thread.start()
    thread.join()
    assert [{name: value for name, value in each.items() if value.isdecimal()} for each in found] == [{}]


PROGRAM = LIGHTNING + "L.Trainer(devices=4)\n"
WRITTEN = {
    "by cat": f"cat > x.py <<'E'\n{PROGRAM}E\npython x.py",
    "under its folder": f"cat > x.py <<'E'\n{PROGRAM}E\npython ./x.py",
    "on the standard input": f"python - <<'E'\n{PROGRAM}E\n",
    "without a dash": f"python3 <<'E'\n{PROGRAM}E\n",
    "as the kubeflow SDK does": f'read -r -d \'\' S << E\n{PROGRAM}E\nprintf "%s" "$S" > "x.py"\npython "x.py"',
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_a_program_that_the_shell_writes_is_read(text):
    (launch,) = readings.read(["bash", "-c", text]).launches
    assert launch.values["devices"] == "4"


def test_a_program_that_is_changed_afterwards_is_not_read():
    text = f"cat > x.py <<'E'\n{PROGRAM}E\nsed -i s/4/2/ x.py\npython x.py"
    (launch,) = readings.read(["bash", "-c", text]).launches
    assert launch.values == {}


def test_the_text_of_an_option_is_read():
    assert readings.read(["python", "-c", PROGRAM]).launches[0].values["devices"] == "4"
    assert (
        spawns.call(readings.read(["python", f"-c{PROGRAM}"]).launches[0].values) == "Trainer(devices=4, num_nodes=1)"
    )
