"""``python -m tests.soak --minutes 20 --seed 0``, or ``make soak``: see :mod:`tests.soak.program`."""

import sys

from .disk import enter_private_mounts


def main():
    private = enter_private_mounts()  # first: it cannot be done once there are threads, and imports start some
    from tests import conftest  # noqa: F401  says where compiled code is kept: a folder for each state of the source

    from .program import run

    return run(sys.argv[1:], private)


if __name__ == "__main__":
    sys.exit(main())
