import os
import sysconfig
import warnings

import pytest

with warnings.catch_warnings():
    # Libraries that these look for warn while they are imported, and no test is about that.
    warnings.simplefilter("ignore")
    import muster.sessions.demo.tiny
    import muster.sessions.engines.trainer  # noqa: F401  # for its sake


@pytest.fixture(scope="session")
def packages():
    """A PYTHONPATH with which the packages of the Gateway come after those of vLLM's environment, which lacks some."""
    return os.pathsep.join([os.environ["PYTHONPATH"], sysconfig.get_path("purelib")])
