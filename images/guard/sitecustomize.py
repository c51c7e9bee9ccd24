"""The start of the guard in an image that is not ours: Python imports this file by the first folder of PYTHONPATH.

It puts the image's own PYTHONPATH back, starts the guard, and makes way for the module of its name that Python would
have imported without this folder. `usercustomize.py` is the same file, for images in which another sitecustomize comes
first and imports no further one, as that of OpenTelemetry.

Any Python of the image reads it, so it is written in what 2.7 understands too; the guard itself wants 3.8.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_NOTES = os.path.join(_HERE, "env")


def _add_the_images_own():
    """Add the PYTHONPATH that the image has, which the one of the pod has replaced, where it would have been.

    `programs/env_of_image.c` wrote it down. The environment is changed too, for children and for programs that read it.
    """
    noted = os.listdir(_NOTES) if os.path.isdir(_NOTES) else ()
    behind = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if len(noted) != 1 or _HERE not in behind:
        return
    with open(os.path.join(_NOTES, noted[0]), "rb") as file:
        written = file.read()
    own = (written if str is bytes else os.fsdecode(written)).split(os.pathsep)
    place = behind.index(_HERE) + 1
    if not written or behind[place : place + len(own)] == own:
        return  # an empty one has no entries; or a parent has added them
    behind[place:place] = own
    os.environ["PYTHONPATH"] = os.pathsep.join(behind)
    place = sys.path.index(_HERE) + 1
    sys.path[place:place] = [os.path.abspath(each) for each in own]
    sys.path[:] = [each for number, each in enumerate(sys.path) if each not in sys.path[:number]]


def _start():
    """Start the guard; what goes wrong with it is told, and harms nothing."""
    try:
        _add_the_images_own()
        if "muster_guard.start" not in sys.modules:  # the one inside an image of Muster may end a training
            os.environ.setdefault("MUSTER_GUARD", "report")
        if sys.version_info >= (3, 8):
            import muster_guard.start  # noqa: F401  # its import is its start
    except Exception as error:
        if sys.stderr is not None:
            sys.stderr.write("muster: the guard is not active in this process: %r\n" % error)


def _make_way():
    """Import the module of this name that comes after this one; what it raises, Python tells as it would have."""
    own = sys.modules.pop(__name__)
    place = sys.path.index(_HERE)
    del sys.path[place]
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)
        if _HERE not in sys.path:
            sys.path.insert(place, _HERE)


_start()
if _HERE in sys.path and __name__ in sys.modules:
    _make_way()
