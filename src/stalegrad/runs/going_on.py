"""How a stored run goes on with another step size, and from where, if some of its chains have diverged."""

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array
from stalegrad.kernels import Kernel
from stalegrad.kernels.schedules import Changed
from stalegrad.runs.divergence import remembered_step
from stalegrad.runs.prepare import Prepared
from stalegrad.runs.store import Info
from stalegrad.runs.store.chain_arrays import chain_arrays
from stalegrad.runs.store.checkpoint import commit
from stalegrad.runs.store.folder import chain_folder, write_record

_ENOUGH = 20  # draws, to tell a chain that stays from one that runs away
_LAST = 5  # draws, whose gradients are compared
_TIMES = 5.0  # as large as usual: no gradient norm of a chain that stays varies as much


def raise_diverged_again(info: Info) -> NoReturn:
    """A run that has diverged does so again if it goes on as it was."""
    steps = {_shown(table.get("step_size")) for table in info.record.kernels}
    better = remembered_step(info.failure)
    given, typed = ("…", "H") if better is None else (f"{better:g}", f"{better:g}")
    raise StoreError(
        f"{info.path} has diverged at step_size={' and '.join(sorted(steps))}, and would again. Go on from its last "
        f"good checkpoint with a smaller one: sg.resume({str(info.path)!r}, …, step_size={given}), or\n"
        f"  stalegrad resume {info.path} --step-size {typed}"
    )


def lost_chains(info: Info) -> tuple[int, ...]:
    """The chains that were on their way to infinity at their last checkpoints, or cannot be seen not to have been."""
    sampled = [chain_arrays(info.path, s, of, info.record)[1] for s, of in enumerate(info.chains)]
    return tuple(s for s, stats in enumerate(sampled) if not _stays(np.asarray(stats[:, 0])))


def _stays(gradient_norms: Array) -> bool:
    """Whether the last gradients of a chain are as large as those of its second half: it does not run away."""
    if len(gradient_norms) < _ENOUGH or not np.isfinite(gradient_norms).all():
        return False
    usual = np.median(gradient_norms[len(gradient_norms) // 2 :])
    return bool(gradient_norms[-_LAST:].max() <= _TIMES * usual)


def with_other_step(kernel: Kernel, updates: int, step_size: Any) -> Kernel:
    """A sampler that has made so many updates, with another step size from here on.

    The first update keeps the old one: a splitting has begun it with the update before.
    """
    other = kernel.with_step_size(step_size)
    if updates == 0:
        return other
    before = kernel.step_size
    return kernel.with_step_size(Changed(before=before, after=step_size, at=updates + 1))  # type: ignore[arg-type]


def go_back(info: Info, prepared: Prepared, lost: Collection[int]) -> None:
    """Make the starts of lost chains their last checkpoints, and have the store know the run's new sampler.

    The caller has the lock. A kill in between leaves a run that has diverged, and can be resumed like this again.
    """
    for s in lost:
        commit(chain_folder(info.path, s), info.chains[s].number + 1, 0, 0, 0, prepared.chain(s).snapshot())
    write_record(info.path, prepared.record(with_gradient=True))


def where_it_goes_on(updates: Sequence[int], draws: Sequence[int]) -> str:
    """In words, for chains that have made so many updates and kept so many draws."""
    if not any(updates):
        return "from its start: there is no checkpoint to go on from"
    least, most = min(updates), max(updates)
    where = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"from update {where}, with {sum(draws):,} draws of {len(draws)} chain{'s' * (len(draws) != 1)} kept"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
