"""Input of all kinds, spoiled by hypothesis: whatever it is, stalegrad takes it or says clearly what is wrong with it.

`make test` draws a few hundred cases. STALEGRAD_BAD_INPUTS sets their number, STALEGRAD_BAD_INPUTS_SEED the seed.
"""

import os
import signal
import warnings
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

import stalegrad as sg
from stalegrad._internal.text import printable
from stalegrad.datasets.models import gaussian

CASES = int(os.environ.get("STALEGRAD_BAD_INPUTS", "300"))
SEED = int(os.environ.get("STALEGRAD_BAD_INPUTS_SEED", "0"))
COMPUTING, WAITING = 120, 1800  # seconds for one case: of the processor, and on a machine however busy


def cases(share):
    """Draw this share of all cases."""

    def decorate(test):
        of = settings(
            max_examples=max(5, round(CASES * share)), deadline=None, database=None, print_blob=False,
            suppress_health_check=list(HealthCheck), phases=(Phase.generate,),  # many cases rather than a small one
        )  # fmt: skip
        return seed(SEED)(of(test))

    return decorate


@contextmanager
def taken_or_refused(*named):
    """What happens inside succeeds, or is refused on purpose in a message with one of the names; and it ends.

    Warnings of NumPy about numbers that overflow are no matter here.
    """

    def give_up(*_):
        raise AssertionError(f"no end after {COMPUTING} s of computing, or {WAITING} s of waiting")

    before = {number: signal.signal(number, give_up) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.alarm(WAITING)
    signal.setitimer(signal.ITIMER_PROF, COMPUTING)
    message = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except sg.StalegradError as error:
        message = str(error)
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    if message is not None:
        assert not named or any(str(name) in message for name in named), f"the message names no file: {message}"
        printable(message).encode()  # a terminal can show it


MODEL = {"n_data": 40, "dimensions": 3, "batch_size": 4}
KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


@pytest.fixture(scope="session")
def model():
    return gaussian(**MODEL)


@pytest.fixture(scope="session")
def run(model, tmp_path_factory):
    """A small run in a folder, complete, with an initial point and a session."""
    return sg.sample(
        model, KERNEL, steps=24, servers=2, workers=3, engine="inline", burn_in=4, thin=2, initial=[0.1, 0.2, 0.3],
        store=tmp_path_factory.mktemp("stores") / "good", progress=False,
    )  # fmt: skip
