"""What several tests of engines need."""

import pytest


@pytest.fixture(scope="session")
def compiled():
    """Compile here what processes of tests need, once, rather than in all of them at the same time."""
    import stalegrad as sg  # not before: the conftest above says where compiled code goes
    from stalegrad.testing import KERNELS, small_model

    for kernel in (*KERNELS, sg.SGHMC(step_size=0.02, friction=5.0)):
        run = sg.sample(small_model(), kernel, steps=4, engine="threads", progress=False)
        sg.replay(run.trace, small_model(), kernel)
