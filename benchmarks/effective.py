"""Effective draws a second on logistic regression shaped like a9a, counted by ArviZ, at equal bias.

All stochastic-gradient candidates sample in the coordinates of :mod:`posterior`, from the same starts. SGLD has the
same step for all, and so the same bias; SGHMC has the step at which theory gives a Gaussian of unit curvature, with
the minibatch noise of this model, the same variance. NumPyro's NUTS, which uses all data at every step and has no such
bias, is what a user without any need for minibatches would pick; it samples in the same coordinates.

    python benchmarks/effective.py [--json FILE]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import blackjax_peer
import cores
import harness
import jax_models
import posteriors_peer
from posterior import Problem, problem
from posterior import exact as exact_draws
from results import Result
from samplers import Sampler

FRICTION = 2.0
"""Critical damping for a curvature of 1."""
TEXT = """
Logistic regression on a9a or on data of its shape, J = {batch_size}, in coordinates in which every curvature at the
mode is 1, {chains} chains of each candidate, one core, one thread; effective draws are ArviZ's bulk count for φ, the
mean loss on the test set. SGLD has h = {step_size:g} for all, and so the same bias for all; SGHMC has the step at
which theory gives it the same. *Variance too large by* is the mean excess of the variances of all coordinates over
those of MALA on all data; of few effective draws it is known poorly. NUTS uses all data at every step and has no bias;
its adaptation is not counted, as compiling is not for anyone. Where data fit in memory and NUTS wins here, use NUTS.
"""

Chain = Callable[[int, Any], tuple[Any, float]]
"""From a chain's number and its start to its draws (D, d) and the seconds they took."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Effective draws a second on logistic regression.")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100_000, help="of each chain (default %(default)s)")
    parser.add_argument(
        "--loop-steps", type=int, default=25_000, help="likewise, in Python loops (default %(default)s)"
    )
    parser.add_argument("--thin", type=int, default=100)
    parser.add_argument("--nuts", type=int, default=200, help="draws of NUTS a chain, and of adaptation")
    parser.add_argument("--tree-depth", type=int, default=10, help="the most that NUTS may use (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--step-size", type=float, default=5e-4)
    parser.add_argument(
        "--reference", type=int, default=600, help="iterations of MALA, 16 chains (default %(default)s)"
    )
    harness.add_arguments(parser, rounds=None)
    return harness.parse(
        parser, given, chains=2, steps=1000, loop_steps=100, thin=10, nuts=5, tree_depth=2, reference=20
    )  # fmt: skip


def equal_bias(step_size: float, noise: float) -> Sampler:
    """SGHMC with the step at which its variance at curvature 1 is that of SGLD with this step; by bisection."""
    from stalegrad.theory import stale_sghmc, stale_sgld

    wanted = stale_sgld(1.0, step_size, gradient_variance=noise).variance
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        small = stale_sghmc(1.0, middle, FRICTION, gradient_variance=noise).variance < wanted
        low, high = (middle, high) if small else (low, middle)
    return Sampler(low, FRICTION)


def ours(model: Problem, given: argparse.Namespace, sampler: Sampler) -> Chain:
    """``sg.sample``, inline."""
    import stalegrad as sg

    potential, kernel = model.posterior.potential, sampler.ours()

    def chain(number: int, start: Any) -> tuple[Any, float]:
        begun = time.perf_counter()
        run = sg.sample(
            potential, kernel, steps=given.steps, thin=given.thin, seed=number, initial=start, engine="inline",
            progress=False,
        )  # fmt: skip
        return run.draws[0], time.perf_counter() - begun

    return chain


def blackjax(model: Problem, given: argparse.Namespace, sampler: Sampler) -> Chain:
    """The tuned scan."""
    peer = blackjax_peer.Peer(jax_models.whitened(model.rows), sampler, batch_size=given.batch_size, steps=given.steps)
    draws_of = peer.draws_of(given.steps, given.thin)

    def chain(number: int, start: Any) -> tuple[Any, float]:
        begun = time.perf_counter()
        draws = draws_of(number, start).block_until_ready()
        return np.asarray(draws), time.perf_counter() - begun

    return chain


def posteriors(model: Problem, given: argparse.Namespace, sampler: Sampler) -> Chain:
    """Its loop, in place."""
    import torch

    log_posterior, _, rows = posteriors_peer.whitened(model.rows)
    minibatch = posteriors_peer.gathered(rows, given.batch_size)

    def chain(number: int, start: Any) -> tuple[Any, float]:
        torch.manual_seed(number)
        walk = posteriors_peer.Chain(
            log_posterior, {"z": torch.from_numpy(start)}, minibatch, model.rows.n_data, sampler, inplace=True
        )
        draws, begun = [], time.perf_counter()
        for _ in range(given.loop_steps // given.thin):
            walk.run(given.thin)
            draws.append(walk.state.params["z"].numpy().copy())
        return np.array(draws), time.perf_counter() - begun

    return chain


def nuts(model: Problem, given: argparse.Namespace) -> Chain:
    """NumPyro's NUTS on all data, in the same coordinates, adapted once."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    rows = jax_models.whitened(model.rows)

    def potential(z: Any) -> Any:
        X, offset, y = rows.rows
        logits = X @ z + offset
        return -rows.log_prior(z) - jnp.sum(y * logits - jax.nn.softplus(logits))

    kernel = NUTS(potential_fn=potential, step_size=0.5, max_tree_depth=given.tree_depth)
    mcmc = MCMC(kernel, num_warmup=given.nuts, num_samples=given.nuts, progress_bar=False)
    mcmc.warmup(jax.random.key(0), init_params=rows.start)
    mcmc.run(jax.random.key(1))  # compiles

    def chain(number: int, start: Any) -> tuple[Any, float]:
        begun = time.perf_counter()
        mcmc.run(jax.random.key(2 + number))
        draws = jax.block_until_ready(mcmc.get_samples())
        return np.asarray(draws), time.perf_counter() - begun

    return chain


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()  # before JAX is imported

    import torch

    from stalegrad.analysis.diagnostics.convergence import convergence

    torch.set_num_threads(1)
    model = problem(given.batch_size)
    phi, exact = model.posterior.phi, exact_draws(model.rows, 16, given.reference)
    truth = exact.reshape(-1, exact.shape[2]).var(axis=0)
    noise = float(np.trace(model.posterior.noise)) / exact.shape[2]
    sgld, sghmc = Sampler(given.step_size), equal_bias(given.step_size, noise)
    candidates = {
        "stalegrad, SGLD": ours(model, given, sgld),
        "stalegrad, SGHMC": ours(model, given, sghmc),
        "BlackJAX, SGLD, scan, tuned": blackjax(model, given, sgld),
        "BlackJAX, SGHMC, scan, tuned": blackjax(model, given, sghmc),
        "posteriors, SGLD, in place": posteriors(model, given, sgld),
        "NumPyro, NUTS, all data": nuts(model, given),
    }
    starts = np.random.default_rng(1).standard_normal((given.chains, exact.shape[2])).astype(np.float32)
    for name, chain in candidates.items():
        if not name.startswith("posteriors"):
            chain(given.chains, starts[0])  # compiles
    found: dict[str, list[tuple[Any, float]]] = {name: [] for name in candidates}
    for number, start in enumerate(starts):
        for name, chain in candidates.items():  # by turns
            found[name].append(chain(number, start))
    rows, rates = [], {}
    for name, chains in found.items():
        draws, seconds = np.array([chain[0] for chain in chains]), sum(chain[1] for chain in chains)
        ess = float(convergence(np.stack([phi(np.asarray(each, np.float32)) for each in draws])).ess)
        excess = float(np.mean(draws.reshape(-1, draws.shape[2]).var(axis=0) / truth) - 1)
        rates[name] = ess / seconds
        rows.append([name, rates[name], ess, seconds, f"{excess:+.1%}"])
    text = TEXT.format(**vars(given))
    settings = {"data": model.source, "sghmc_step_size": sghmc.step_size, "friction": FRICTION, **vars(given)}
    result = Result("Effective draws a second: logistic regression", text, settings)
    result.table(
        f"Effective draws of φ a second, one core ({model.source})",
        ["", "a second", "effective draws", "seconds", "variance too large by"],
        rows,
    )
    result.columns("effective", "Effective draws of φ, logistic regression", "a second", rates)
    result.finish(given.json)


if __name__ == "__main__":
    main()
