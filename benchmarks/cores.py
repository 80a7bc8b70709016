"""How many cores and threads a measurement has: one for all candidates alike, unless it is about several."""

import os


def one_core() -> set[int]:
    """Tie this process, XLA and numerical libraries to a single core; returns the cores that it had.

    Call it before JAX is imported for the first time: XLA sizes its thread pool by the cores that the process may use.
    """
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    cores = current()
    give_back({max(cores)})
    return cores


def current() -> set[int]:
    """The cores that this process may use now."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def give_back(cores: set[int]) -> None:
    """Let this process use these cores again."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
