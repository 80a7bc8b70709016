"""How many threads torch uses while a gradient is computed.

The order in which a sum is split among threads shows in its last bits. So the number of threads belongs to the model:
workers and a replay of their run must compute with the same one, whatever the process around them has chosen.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

import torch

_lock = threading.Lock()
_inside = 0  # computations that go on now
_before = 1  # what torch was set to before the first of them


def with_gradients() -> AbstractContextManager[object]:
    """Let autograd record inside, whatever the caller has switched off. To ask costs less than to switch."""
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        return nullcontext()
    with ExitStack() as both:
        both.enter_context(torch.inference_mode(False))
        both.enter_context(torch.enable_grad())
        return both.pop_all()


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use so many threads inside, and what it used before once the last thread has left.

    OpenMP keeps the number for each thread of the program, MKL one for all of them, and torch sets both. So it is set
    by every thread that enters, and set back only by the last to leave: it never changes during a computation.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)
