"""BlackJAX's SGLD and SGHMC: the peers that our own steps are timed against.

Several ways to write the same chain, all compiled:

- *documented*: the gradient from BlackJAX's ``grad_estimator``, one key a step that gives the minibatch and the noise,
  the chain in one ``lax.scan``, as its documentation and its speed-up guide recommend. Its SGHMC makes ten integration
  steps on each minibatch, with a fresh momentum; every integration step counts as a step;
- *loop*: the same step, compiled, called from a Python loop as in its first examples;
- *tuned*: BlackJAX's integrators, with the gradient derived by hand, minibatches and keys drawn a thousand steps at a
  time, bounds checks off and the loop unrolled: the fastest we found. Its SGHMC takes a new minibatch at every step and
  keeps the momentum, as ours does;
- *plain JAX*: no BlackJAX, the noise drawn a thousand steps at a time too. A bound on what XLA can do with this.

Minibatches are drawn with replacement: ``jax.random.choice(..., replace=False)`` permutes all N indices at every
step, which takes milliseconds where the rest of the step takes microseconds.
"""

from collections.abc import Callable
from typing import Any

import harness
from jax_models import JaxModel
from samplers import Sampler

INTEGRATION_STEPS = 10
"""BlackJAX's default for SGHMC."""
BLOCK = 1000
"""Steps whose random numbers are drawn at once, where they are."""

Run = Callable[[], Any]


class Peer:
    """A model, a sampler, and the ways to run it.

    Each way is a method that returns a function without arguments: it runs ``steps`` steps, waits for the end and
    returns the last position.

    Args:
        model: the posterior.
        sampler: which, and its numbers.
        batch_size: J.
        steps: of one call.
        seed: of the keys.
    """

    def __init__(self, model: JaxModel, sampler: Sampler, *, batch_size: int, steps: int, seed: int = 0) -> None:
        self.model, self.sampler = model, sampler
        self.batch_size, self.steps, self.seed = batch_size, steps, seed

    def cases(self, *, loop_steps: int, plain: bool = False) -> list[harness.Case]:
        """All ways, ready for :func:`harness.measure`; the loop makes ``loop_steps``."""
        cases = [
            harness.Case("BlackJAX, scan, documented", self.documented(), self.steps),
            harness.Case("BlackJAX, scan, tuned", self.tuned(), self.steps),
            harness.Case("BlackJAX, loop", self.loop(loop_steps), loop_steps),
        ]
        return cases + ([harness.Case("plain JAX, scan", self.plain_jax(), self.steps)] if plain else [])

    def documented(self) -> Run:
        """As BlackJAX's documentation has it."""
        import jax

        step, at_once = self._documented_step()

        def chain(key: Any, position: Any, rows: Any) -> Any:
            keys = jax.random.split(key, self.steps // at_once)
            return jax.lax.scan(lambda position, key: (step(key, position, rows), None), position, keys)[0]

        return self._compiled(chain)

    def loop(self, steps: int) -> Run:
        """The documented step, compiled, in a Python loop."""
        import jax

        step, at_once = self._documented_step()

        @jax.jit
        def one(key: Any, position: Any, rows: Any) -> Any:
            key, mine = jax.random.split(key)
            return key, step(mine, position, rows)

        def run() -> Any:
            key, position = jax.random.key(self.seed), self.model.start
            for _ in range(steps // at_once):
                key, position = one(key, position, self.model.rows)
            return position.block_until_ready()

        return run

    def tuned(self) -> Run:
        """As fast as we could make it with BlackJAX's own integrators."""
        draws = self.draws_of(self.steps, min(BLOCK, self.steps))
        return lambda: draws(self.seed)[-1].block_until_ready()

    def draws_of(self, steps: int, thin: int, unroll: int = 2) -> Callable[..., Any]:
        """The tuned chain as a function of a seed and, if wanted, a start; gives every ``thin``-th position."""
        import jax
        import jax.numpy as jnp
        from blackjax.sgmcmc import diffusions

        h, friction = self.sampler.step_size, self.sampler.friction
        langevin = diffusions.overdamped_langevin()
        hamiltonian = diffusions.sghmc(friction or 0.0, 0.0)

        def step(rows: Any, state: Any, random: Any) -> Any:
            indices, key = random
            gradient = self.model.gradient(state[0], _take(rows, indices))
            if friction is None:
                return (langevin(key, state[0], gradient, h),), None
            return hamiltonian(key, *state, gradient, h), None

        @jax.jit
        def chain(key: Any, position: Any, rows: Any) -> Any:
            def block(state: Any, key: Any) -> Any:
                batch_key, noise_key = jax.random.split(key)
                indices = jax.random.randint(batch_key, (thin, self.batch_size), 0, self.model.n_data)
                random = indices, jax.random.split(noise_key, thin)
                state, _ = jax.lax.scan(lambda s, r: step(rows, s, r), state, random, unroll=unroll)
                return state, state[0]

            start_key, key = jax.random.split(key)
            momentum = () if friction is None else (jax.random.normal(start_key, position.shape),)
            return jax.lax.scan(block, (position, *momentum), jax.random.split(key, steps // thin))[1]

        def draws(seed: int, start: Any = None) -> Any:
            position = self.model.start if start is None else jnp.asarray(start)
            return chain(jax.random.key(seed), position, self.model.rows)

        return draws

    def plain_jax(self) -> Run:
        """Without BlackJAX; SGLD only."""
        import jax
        import jax.numpy as jnp

        h, shape = self.sampler.step_size, self.model.start.shape

        def chain(key: Any, position: Any, rows: Any) -> Any:
            def step(position: Any, random: Any) -> Any:
                indices, noise = random
                drift = h * self.model.gradient(position, _take(rows, indices))
                return position + drift + jnp.sqrt(2 * h) * noise, None

            def block(position: Any, key: Any) -> Any:
                batch_key, noise_key = jax.random.split(key)
                indices = jax.random.randint(batch_key, (BLOCK, self.batch_size), 0, self.model.n_data)
                noise = jax.random.normal(noise_key, (BLOCK, *shape))
                return jax.lax.scan(step, position, (indices, noise))

            keys = jax.random.split(key, max(1, self.steps // BLOCK))
            return jax.lax.scan(block, position, keys)[0]

        return self._compiled(chain)

    def _documented_step(self) -> tuple[Callable[..., Any], int]:
        """A function of (key, position, rows), and how many gradients it computes."""
        import blackjax
        import jax
        from blackjax.sgmcmc.gradients import grad_estimator

        model = self.model
        gradient = grad_estimator(model.log_prior, model.log_likelihood, model.n_data)
        if self.sampler.friction is None:
            kernel, at_once = blackjax.sgld(gradient), 1
        else:
            kernel, at_once = blackjax.sghmc(gradient, INTEGRATION_STEPS, self.sampler.friction), INTEGRATION_STEPS

        def step(key: Any, position: Any, rows: Any) -> Any:
            batch_key, noise_key = jax.random.split(key)
            indices = jax.random.randint(batch_key, (self.batch_size,), 0, model.n_data)
            minibatch = jax.tree.map(lambda array: array[indices], rows)
            return kernel.step(noise_key, position, minibatch, self.sampler.step_size)

        return step, at_once

    def _compiled(self, chain: Callable[..., Any]) -> Run:
        import jax

        compiled = jax.jit(chain)
        return lambda: compiled(jax.random.key(self.seed), self.model.start, self.model.rows).block_until_ready()


def _take(rows: Any, indices: Any) -> Any:
    import jax

    return jax.tree.map(lambda array: array.at[indices].get(mode="promise_in_bounds"), rows)
