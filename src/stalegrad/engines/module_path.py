"""Where another Python process looks for modules: where this one does, and not in whatever folder it happens to be in.

``python -c`` puts the current folder first on the path, before the standard library: a file ``cloudpickle.py`` that
lies there, in a download or in somebody else's folder, would be executed. ``python -P`` leaves it out.
"""

import os
import sys

SAFE_PYTHON = (sys.executable, "-P")
"""The beginning of a command that starts this Python without the current folder on its path."""


def module_path() -> str:
    """This process's ``sys.path`` as a PYTHONPATH. The current folder is on it if, and where, it is on this one's."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)
