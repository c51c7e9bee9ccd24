"""Lets the mutation run into the Python programs that a test starts: this folder is on their PYTHONPATH.

A measured program says which lines it ran for which test; a program of a trial imports the mutant. Anything else that
starts Python with this folder on its path is left alone.
"""

import os

if os.environ.get("MUTANTS_NODE") and os.environ.get("MUTANTS_FOLDER"):
    import atexit

    import coverage

    _measured = coverage.Coverage(
        data_file=os.path.join(os.environ["MUTANTS_FOLDER"], "lines"),  # noqa: PTH118 - pathlib takes 10 ms to import
        data_suffix=True,
        source=os.environ["MUTANTS_SOURCES"].split(os.pathsep),
        context=os.environ["MUTANTS_NODE"],
        config_file=False,
        messages=False,
    )
    _measured.set_option("run:sigterm", value=True)
    _measured.start()
    atexit.register(_measured.save)
elif os.environ.get("MUTANTS_TRIAL"):
    import runpy

    # By its path: what a program may import is what it could without this folder.
    _hooks = runpy.run_path(os.path.join(os.path.dirname(__file__), "..", "hooks.py"))  # noqa: PTH118, PTH120 - as above
    _hooks["install_from"](os.environ["MUTANTS_TRIAL"])
