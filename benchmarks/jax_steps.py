"""Steps a second of models written in JAX and NumPyro: ours inline against scans written by hand.

Logistic regression shaped like a9a with ``from_jax``: against BlackJAX's scan as its documentation has it, and against
plain JAX with the gradient derived by hand and random numbers drawn a thousand steps at a time. A linear regression of
four parameters with ``from_numpyro``: against a plain ``lax.scan`` over the gradient of the same model's potential, one
key a step. All on one core, by turns.

    python benchmarks/jax_steps.py [--json FILE]
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import a9a_like
import blackjax_peer
import cores
import harness
import jax_models
import samplers
from results import Bar, Result

TEXT = """
Models written in JAX, one core, one thread, medians of rounds in which the candidates take turns. Ours is
`sg.sample(..., engine="inline")` with one worker, {steps:,} steps a call, at the speed of programs that are compiled
already. Logistic regression on a9a or on data of its shape, SGLD, J = {batch_size}: ours differentiates the
log-likelihood of one datum that `from_jax` was given and draws minibatches without replacement; it keeps every
hundredth draw and the trace, the others their last position. *Documented* is BlackJAX as its own documentation writes
it; *plain JAX* has its gradient by hand and no library. The regression of `from_numpyro` has four parameters and {rows}
rows, all in every gradient; *plain lax.scan* differentiates the same model's potential energy and makes its own
normals, one key a step. Both keep all draws.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Steps a second of models in JAX and NumPyro.")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--rows", type=int, default=100, help="data of the regression (default %(default)s)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of one timed call (default %(default)s)")
    harness.add_arguments(parser, rounds=7)
    return harness.parse(parser, given, steps=6000, rounds=1)


def logistic_cases(data: a9a_like.LogisticData, batch_size: int, steps: int) -> list[harness.Case]:
    """Ours first, then the peers."""
    import stalegrad as sg

    model = jax_models.logistic(data.dense, data.y)
    potential = sg.potentials.from_jax(
        model.log_prior, model.log_likelihood, model.rows, model.start, batch_size=batch_size
    )
    kernel = samplers.SGLD.ours()

    def ours() -> Any:
        return sg.sample(potential, kernel, steps=steps, thin=100, engine="inline", progress=False)

    peer = blackjax_peer.Peer(model, samplers.SGLD, batch_size=batch_size, steps=steps)
    return [
        harness.Case("stalegrad, from_jax, inline", ours, steps),
        harness.Case("BlackJAX, scan, documented", peer.documented(), steps),
        harness.Case("BlackJAX, scan, tuned", peer.tuned(), steps),
        harness.Case("plain JAX, scan", peer.plain_jax(), steps),
    ]


def regression(rows: int) -> tuple[Callable[..., None], tuple[np.ndarray, np.ndarray]]:
    """A model of NumPyro with an intercept, two slopes and a scale, and data from it."""
    import numpyro
    from numpyro import distributions as dist

    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 2)).astype(np.float32)
    y = (1 + x @ [2.0, -1.0] + 0.5 * rng.standard_normal(rows)).astype(np.float32)

    def model(x: Any, y: Any) -> None:
        intercept = numpyro.sample("intercept", dist.Normal(0, 10))
        slopes = numpyro.sample("slopes", dist.Normal(0, 10).expand([2]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(intercept + x @ slopes, scale), obs=y)

    return model, (x, y)


def regression_cases(rows: int, steps: int) -> list[harness.Case]:
    """Ours, and a scan over the gradient of the model's own potential energy."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree
    from numpyro.infer.util import potential_energy

    import stalegrad as sg

    model, data = regression(rows)
    potential = sg.potentials.from_numpyro(model, *data)
    h = 1e-4
    kernel = sg.SGLD(step_size=h)

    def ours() -> Any:
        return sg.sample(potential, kernel, steps=steps, engine="inline", progress=False)

    start = {"intercept": jnp.zeros(()), "scale": jnp.zeros(()), "slopes": jnp.zeros(2)}
    flat, unravel = ravel_pytree(start)
    np.testing.assert_allclose(  # the comparison is worth nothing unless both have the same gradient
        jax.grad(lambda theta: potential_energy(model, data, {}, unravel(theta)))(flat),
        potential.full_gradient(np.asarray(flat)), rtol=1e-4,
    )  # fmt: skip

    @jax.jit
    def chain(key: Any, theta: Any, data: Any) -> Any:
        gradient = jax.grad(lambda theta: potential_energy(model, data, {}, unravel(theta)))

        def step(theta: Any, key: Any) -> Any:
            theta = theta - h * gradient(theta) + jnp.sqrt(2 * h) * jax.random.normal(key, theta.shape)
            return theta, theta

        return jax.lax.scan(step, theta, jax.random.split(key, steps))[1]

    on_device = tuple(map(jnp.asarray, data))

    def plain() -> Any:
        return np.asarray(chain(jax.random.key(0), flat, on_device))

    return [
        harness.Case("stalegrad, from_numpyro, inline", ours, steps),
        harness.Case("plain lax.scan", plain, steps),
    ]


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()  # before JAX is imported
    data = a9a_like.load()
    text = TEXT.format(steps=given.steps, batch_size=given.batch_size, rows=given.rows)
    result = Result("Models in JAX and NumPyro", text, {"data": data.source, **vars(given)})
    logistic = harness.measure(logistic_cases(data, given.batch_size, given.steps), rounds=given.rounds)
    numpyro = harness.measure(regression_cases(given.rows, given.steps), rounds=given.rounds)
    for title, timings in (
        (f"Logistic regression, SGLD, J = {given.batch_size} ({data.source})", logistic),
        (f"Regression with 4 parameters, SGLD, all {given.rows} data", numpyro),
    ):
        rows = [[timing.name, timing.median, timing.best, timing.rate] for timing in timings]
        result.table(title, ["", "µs a step, median", "µs a step, best", "steps a second"], rows)
        result.figures[title] = [timing.as_dict() for timing in timings]
    rates = {timing.name: timing.rate for timing in logistic}
    result.columns("jax", "Logistic regression in JAX", "steps a second", rates)
    ours = rates["stalegrad, from_jax, inline"]
    result.bars = [
        Bar("from_jax, a9a: BlackJAX, scan, documented", ours, rates["BlackJAX, scan, documented"], 1.5,
            unit="steps/s"),
        Bar("from_jax, a9a: plain JAX, scan", ours, rates["plain JAX, scan"], 0.9, unit="steps/s"),
        Bar("from_numpyro, 4 parameters: plain lax.scan", numpyro[0].median, numpyro[1].median, 1.3, at_least=False,
            unit="µs a step"),
    ]  # fmt: skip
    result.finish(given.json)


if __name__ == "__main__":
    main()
