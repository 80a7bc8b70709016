"""From chains to curves: φ̂, the current draw and the averaged prediction, with the intervals of the repetitions."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.evaluation import places, rounded
from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.losses.tasks import Task

Records = Mapping[ChainName, ChainRecord]
_LOOKS = 5  # behind a median


class Extent:
    """The chains of a figure, as far as they all have got: what its curves are made of.

    *Servers.* Chains of different servers have the same law and seeds of their own, as those of repetitions do. So each
    of them is a run of one server, and S servers are estimated over all subsets of S of the chains that a repetition
    has of this W: the same expectations with far less noise, from the same gradients.

    Args:
        task: what is sampled.
        layouts: of the figure.
        records: of all their chains.
        iterations: L̄.
        seeds: repetitions.
        name: gives a layout's chains in a repetition.
    """

    def __init__(
        self, task: Task, layouts: Sequence[Layout], records: Records, iterations: int, seeds: int,
        name: Callable[[Layout, int], list[ChainName]],
    ) -> None:  # fmt: skip
        self.task, self.iterations, self.seeds = task, iterations, seeds
        self.axis, self.round_axis = places(iterations, task.density), np.array(list(rounded(iterations)))
        self._layouts, self._records, self._name = layouts, records, name

    def chains(self, layout: Layout, seed: int) -> list[ChainRecord]:
        """All chains of the layout's W in this repetition, however many servers the layout itself has."""
        alike = [each for each in self._layouts if (each.workers, each.control) == (layout.workers, layout.control)]
        return [self._records[name] for name in self._name(max(alike), seed)]

    def every(self, layout: Layout) -> list[ChainRecord]:
        """The same of all repetitions."""
        return [chain for seed in range(self.seeds) for chain in self.chains(layout, seed)]

    def averages(self, layout: Layout) -> Array:
        """φ̂ of each chain, (chains of all repetitions, places): its expectation is that of any number of servers."""
        return self._of_chains("averages", self.every(layout))

    def current(self, layout: Layout) -> Array:
        """φ of the current draw of each chain, likewise."""
        return self._of_chains("current", self.every(layout))

    def predictive(self, layout: Layout) -> Array:
        """−(1/n) Σ_i log p̄_i with p̄ averaged over the draws of S chains, of each repetition; of one, of each chain.

        By Jensen's inequality it is below φ̂, and the more so the more the draws of one chain, or chains, disagree.
        """
        if layout.servers == 1:
            return self._of_chains("predictive", self.every(layout))
        return self._of_repetitions(layout)

    def pairs(self, kind: str, first: Layout, second: Layout) -> tuple[Array, Array]:
        """Curves of two layouts, row by row of what they share: start, noise and, in part, data, which then cancel.

        Those are chains of the same repetition and number, as many as both have; where servers are averaged over,
        repetitions.

        Args:
            kind: ``"averages"``, ``"current"`` or ``"predictive"``.
            first: the one.
            second: the other.
        """
        if kind == "predictive" and max(first.servers, second.servers) > 1:
            return self._of_repetitions(first), self._of_repetitions(second)
        count = min(len(self.chains(layout, 0)) for layout in (first, second))
        one, other = (
            [chain for seed in range(self.seeds) for chain in self.chains(layout, seed)[:count]]
            for layout in (first, second)
        )
        return self._of_chains(kind, one), self._of_chains(kind, other)

    def by_updates(self, layout: Layout) -> list[tuple[int, float]]:
        """The draw's loss after so many updates of all W workers together, at round numbers of them.

        Of each chain it is the median over the last tenth of these updates, which a burst of oscillation does not move,
        and here its mean over the chains that got there.
        """
        found = []
        for updates in rounded(layout.workers * self.iterations):
            last = updates / layout.workers
            there = [chain for chain in self.every(layout) if chain.sound >= int(last)]
            looks = [chain.loss[(chain.places > 0.9 * last) & (chain.places <= last)] for chain in there]
            if looks and min(map(len, looks)) >= _LOOKS:
                found.append((updates, float(np.mean([np.median(each) for each in looks]))))
        return found

    def spread(self, layout: Layout) -> tuple[float, float]:
        """Standard deviation of φ̂ at the end from one run to the next, and its relative standard error.

        Of S chains it is that of one over √S, and chains of all repetitions say what that is.
        """
        ends = np.array([self._end(chain) for seed in range(self.seeds) for chain in self.chains(layout, seed)])
        if len(ends) < 2:
            return float("nan"), float("nan")
        return float(ends.std(ddof=1) / np.sqrt(layout.servers)), float(1 / np.sqrt(2 * (len(ends) - 1)))

    def spread_ratio(self, layout: Layout) -> tuple[float, float, float]:
        """Variance of φ̂ of S servers over that of one, with its 95 % interval; NaN for one repetition.

        The first is that of the repetitions' averages over S chains, the second that of chains within repetitions.
        """
        from scipy.stats import f as fisher

        ends = np.array([
            [self._end(chain) for chain in self.chains(layout, seed)[: layout.servers]] for seed in range(self.seeds)
        ])  # fmt: skip
        if self.seeds < 2 or layout.servers < 2:
            return float("nan"), float("nan"), float("nan")
        degrees = self.seeds - 1, self.seeds * (layout.servers - 1)
        ratio = float(ends.mean(1).var(ddof=1) / ends.var(1, ddof=1).mean())
        low, high = (ratio / float(fisher.ppf(share, *degrees)) for share in (0.975, 0.025))
        return ratio, low, high

    def _end(self, chain: ChainRecord) -> float:
        return float("nan") if chain.lost(self.iterations) else float(chain.average(self.task, self.iterations)[-1])

    def _of_chains(self, kind: str, chains: list[ChainRecord]) -> Array:
        """One row a chain, NaN from where it diverges."""
        axis = self.round_axis if kind == "predictive" else self.axis

        def curve(chain: ChainRecord) -> Array:
            last = chain.sound if chain.lost(self.iterations) else self.iterations
            if kind == "predictive":
                return chain.predictive_loss(last)
            values = chain.average(self.task, self.iterations) if kind == "averages" else chain.loss
            here = chain.places <= last
            return np.asarray(values, np.float64)[: here.sum()][np.isin(chain.places[here], self.axis)]

        found = [curve(chain) for chain in chains]
        return np.array([np.concatenate([row, np.full(len(axis) - len(row), np.nan)]) for row in found])

    def _of_repetitions(self, layout: Layout) -> Array:
        """The loss of averaged predictions of S servers, the mean over subsets of chains; one row a repetition."""
        rows = []
        for seed in range(self.seeds):
            chains = self.chains(layout, seed)
            if any(chain.lost(self.iterations) for chain in chains):
                rows.append(np.full(len(self.round_axis), np.nan))
                continue
            shares = [np.exp(c.log_predictive[c.kept <= self.iterations].astype(np.float64)) for c in chains]
            subsets = combinations(shares, layout.servers)
            rows.append(np.mean([-np.log(np.mean(each, axis=0)).mean(1) for each in subsets], axis=0))
        return np.array(rows)


def summary(values: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Mean over the rows, and half the width of its interval by Student's t; NaN for one row."""
    from scipy.stats import t as student

    count = values.shape[0]
    if count == 1:
        return values[0], np.full(values.shape[1:], np.nan)
    return values.mean(0), student.ppf((1 + level) / 2, count - 1) * values.std(0, ddof=1) / np.sqrt(count)


def speedups(axis: Array, first: float, one: Array, many: Array) -> Array:
    """L̄ in which one worker gets to its final φ̂, over that in which W do; one number a row, NaN if never.

    Args:
        axis: L̄ of the curves.
        first: φ(θ_0), where all begin.
        one: φ̂ of one worker, (rows, places).
        many: φ̂ of W workers.
    """
    start, found = np.concatenate([[0], axis]), []
    for few, more in zip(one, many, strict=True):
        curve = np.concatenate([[first], more])
        below = np.flatnonzero(curve <= few[-1])
        if not below.size or below[0] == 0:
            found.append(np.nan)
            continue
        k = int(below[0])
        share = (curve[k - 1] - few[-1]) / (curve[k - 1] - curve[k])
        found.append(axis[-1] / (start[k - 1] + share * (start[k] - start[k - 1])))
    return np.array(found)
