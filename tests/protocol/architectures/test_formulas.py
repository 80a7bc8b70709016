"""Single updates of architectures against their formulas, written out: what test_laws.py sees in the long run."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.noise import Stream, normals
from stalegrad.potentials import GaussianMean
from stalegrad.potentials.address import GradientAddress
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.architectures.shards import ShardWeights
from stalegrad.protocol.chain import Each
from stalegrad.protocol.chain_trace import ChainTrace

SEED, CHAIN, REPEATS, SIZE, WORKERS = 5, 1, 2, 7, 3
H, TEMPERATURE, RHO, ALPHA = 0.01, 2.0, 3.0, 0.4
KERNEL = sg.SGLD(step_size=H, temperature=TEMPERATURE)


def elastic_chain(**settings):
    start = np.random.default_rng(1).normal(size=(REPEATS, SIZE))
    elastic = sg.Elastic(rho=RHO, alpha=ALPHA, **settings)
    return elastic.chain(KERNEL, Place(start, SEED, CHAIN, 0), WORKERS), start


def noise(stream, update):
    return normals(np.empty((REPEATS, SIZE)), SEED, stream, CHAIN, update)


def renewed(centre, positions, update):
    """c ← x̄ + (1 − α)(c − x̄) + √((1 − (1 − α)²) T/(Wρ)) ζ."""
    mean = np.mean(positions, axis=0)
    spread = np.sqrt((1 - (1 - ALPHA) ** 2) * TEMPERATURE / (WORKERS * RHO))
    return mean + (1 - ALPHA) * (centre - mean) + spread * noise(Stream.CENTRE, update)


@pytest.mark.parametrize("divide", [False, True])
def test_an_elastic_worker_is_drawn_to_the_centre_and_the_centre_to_all(divide):
    chain, start = elastic_chain(divide=divide)
    centre, positions = start.copy(), [start.copy() for _ in range(WORKERS)]
    for update, worker in enumerate([0, 2, 1, 1, 0, 2]):
        point = chain.point_for(worker, chain.point)
        np.testing.assert_allclose(point, positions[worker], rtol=1e-12)
        gradient = point**3
        force = gradient / (WORKERS if divide else 1) + RHO * (positions[worker] - centre)
        kick = np.sqrt(2 * H * TEMPERATURE) * noise(Stream.UPDATE, update)
        positions[worker] = positions[worker] - H * force + kick
        centre = renewed(centre, positions, update)
        chain.advance(gradient, worker=worker)
        np.testing.assert_allclose(chain.snapshot()["position"], positions, rtol=1e-12)
        np.testing.assert_allclose(chain.snapshot()["centre"], centre, rtol=1e-12)


def test_after_several_local_steps_the_spring_acts_for_as_long():
    """x_w ← c + e^{−ρ n h} (x_w + Δ − c)."""
    n = 4
    chain, start = elastic_chain(n_push=n)
    centre, positions = start.copy(), [start.copy() for _ in range(WORKERS)]
    for update, worker in enumerate([0, 2, 1, 1]):
        change = np.cos(positions[worker])
        positions[worker] = centre + np.exp(-RHO * n * H) * (positions[worker] + change - centre)
        centre = renewed(centre, positions, update)
        chain.advance(change, worker=worker)
        np.testing.assert_allclose(chain.snapshot()["position"], positions, rtol=1e-12)
        np.testing.assert_allclose(chain.snapshot()["centre"], centre, rtol=1e-12)


N, SIZES, LENGTHS = 60, (10, 20, 30), (6, 4, 2)
DATA, ENDS = np.arange(N, dtype=float), np.cumsum((0, *SIZES))
THETA = np.array([[0.7]])


def seen(gradient, weight):
    """Which datum a gradient is of: g̃ = θ + N (θ − d) on a minibatch of one, times a weight."""
    (datum,) = (THETA[0] - (gradient[0] / weight - THETA[0]) / N).tolist()
    assert datum == pytest.approx(round(datum), abs=1e-6), "it has another weight"
    return round(datum)


def one_datum():
    return GaussianMean(DATA, batch_size=1, dtype=np.float64)


def test_chains_of_a_consensus_see_their_own_shard_with_its_share():
    """(N_s/N) g̃ on a datum of shard s, whichever worker makes it."""
    work, out = sg.Consensus(SIZES).work(one_datum(), [KERNEL] * 3, 2), np.empty((1, 1))
    for s, size in enumerate(SIZES):
        data = set()
        for worker in range(2):
            for count in range(20):
                work.answer(THETA, GradientAddress(1, s, worker, count), out)
                data.add(seen(out, size / N))
        assert data <= set(range(ENDS[s], ENDS[s + 1]))
        assert len(data) > 5


def test_chains_that_visit_shards_see_the_one_that_they_visit_with_its_weight():
    """β_v g̃ on a datum of shard v, β_v = (N_v/N) Σ n / n_v."""
    visiting = sg.VisitingShards(SIZES, lengths=LENGTHS)
    work, out = visiting.work(one_datum(), [KERNEL] * 3, 1), np.empty((1, 1))
    visited = set()
    for trajectory in range(20):
        v = visiting.shard(5, 2, trajectory)
        work.local_gradient(THETA, GradientAddress(5, 2, 0, 7 * trajectory), trajectory, out)
        assert seen(out, SIZES[v] / N * sum(LENGTHS) / LENGTHS[v]) in range(ENDS[v], ENDS[v + 1])
        visited.add(v)
    assert visited == {0, 1, 2}


def test_chains_never_visit_the_same_shard_in_a_round():
    visiting = sg.VisitingShards(SIZES, lengths=LENGTHS)
    rounds = [[visiting.shard(1, s, k) for s in range(3)] for k in range(40)]
    assert all(sorted(places) == [0, 1, 2] for places in rounds)
    assert len(set(map(tuple, rounds))) == 6


def pushes(workers, accepted):
    """The trace of pushes of these workers."""
    workers, accepted = np.asarray(workers, np.int32), np.asarray(accepted, bool)
    count = np.array([np.count_nonzero(workers[:row] == worker) for row, worker in enumerate(workers)])
    return ChainTrace(workers, count, np.zeros_like(workers), accepted, np.where(accepted, 0.1, np.nan))


class TestFetches:
    """What Downpour(n_push=2, n_fetch=6) costs: three pushes of a worker go by a fetch of its own."""

    seldom = sg.Downpour(n_push=2, n_fetch=6)

    def test_a_fetch_counts_though_its_pushes_are_not_all_made(self):
        """Of 61 pushes twenty times three and one more."""
        assert self.seldom.cost([pushes([0] * 61, [True] * 61)]) == (2 * 61, 61 + 21)

    def test_every_worker_fetches_for_itself(self):
        """Twenty pushes of each of three workers, by turns: seven fetches each, the last for two pushes."""
        chain = pushes([0, 1, 2] * 20, [True] * 60)
        assert self.seldom.cost([chain]) == (2 * 60, 60 + 3 * 7)
        assert self.seldom.cost([chain, chain]) == (4 * 60, 2 * (60 + 3 * 7))

    def test_pushes_that_were_dropped_leave_the_copy_as_it_was(self):
        """It is fetched when none, three, … have landed: here before the first push, and before the last two."""
        chain = pushes([0] * 6, [True, False, True, True, False, True])
        assert self.seldom.cost([chain]) == (2 * 6, 6 + 3)


def test_a_chain_of_shards_weighs_each_gradient_by_the_gaps_before_it():
    """θ ← θ − h β̂_w g without noise, with the weights that test_shards.py holds against the data."""
    order = [0, 0, 0, 1, 0, 0, 1, 2, 0, 1, 0, 0, 2]
    cold, sizes = sg.SGLD(step_size=H, temperature=0.0), (10, 20, 30)
    chain = sg.Shards(sizes).chain(cold, Place(np.zeros((1, 4)), SEED, CHAIN, 0), WORKERS)
    moved, gradient = [], np.full((1, 4), 2.0)
    for worker in order:
        before = chain.position.copy()
        chain.apply(gradient, worker, Each(lambda *_: None))
        moved.append(chain.position - before)
    weights = ShardWeights(sizes).of(order, 0)
    assert len(set(weights.round(6))) > 5
    np.testing.assert_allclose(np.array(moved)[:, 0], -H * 2.0 * weights[:, None] * np.ones(4), rtol=1e-9)
