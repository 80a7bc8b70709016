"""How far the chains of a figure have got, which is how much of it can be shown."""

from collections.abc import Callable

from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.curves import Records
from stalegrad.experiments.losses.evaluation import rounded
from stalegrad.experiments.losses.layouts import Goal, Layout


def ends_of_repetitions(
    layouts: list[Layout], records: Records, goals: list[Goal], chains: Callable[[Layout, int], list[ChainName]]
) -> list[int]:
    """L̄ that all layouts have, of each repetition up to the first that lacks a chain: the goal, or a round number.

    A chain that has diverged is as long as it will ever be, and holds nobody up.
    """
    most = max(goal.iterations for goal in goals)
    found = []
    for seed in range(max(goal.seeds for goal in goals)):
        names = [name for layout in layouts for name in chains(layout, seed)]
        if any(name not in records for name in names):
            break
        end = min([most, *(records[name].iterations for name in names if not records[name].diverged)])
        found.append(end if end == most else max(rounded(end), default=0))
    return found


def most_repeated(ends: list[int]) -> Goal | None:
    """The longest L̄ that two repetitions have, and how many have it from the first on; of one, where two have nothing.

    >>> most_repeated([20_000, 5_000, 5_000])
    Goal(iterations=5000, seeds=3)
    """
    if not ends or not max(ends):
        return None
    best = sorted(ends, reverse=True)[min(1, len(ends) - 1)]
    count = next((k for k, each in enumerate(ends) if each < best), len(ends))
    return Goal(best, count) if count else Goal(ends[0], 1)


def longer_alone(ends: list[int]) -> Goal | None:
    """L̄ of the first repetition, if it is beyond :func:`most_repeated`.

    >>> longer_alone([20_000, 5_000, 5_000])
    Goal(iterations=20000, seeds=1)
    """
    repeated = most_repeated(ends)
    return Goal(ends[0], 1) if repeated and ends[0] > repeated.iterations else None
