"""BlackJAX's SGLD on Bayesian logistic regression: the peer that our own steps are timed against.

Three ways to write the same chain, all compiled as one ``lax.scan``:

- *documented*: the gradient from BlackJAX's ``grad_estimator``, and one key a step that gives the minibatch and the
  noise, as its documentation and its speed-up guide recommend;
- *tuned*: still BlackJAX's kernel, with the gradient derived by hand, all minibatch indices and keys drawn before the
  loop in one sweep, bounds checks off and the loop unrolled: the fastest we found;
- *plain JAX*: no BlackJAX, all noise drawn beforehand as well. A bound on what XLA can do with this formulation.

Minibatches are drawn with replacement: ``jax.random.choice(..., replace=False)`` permutes all N indices at every
step, which takes milliseconds where the rest of the step takes microseconds.

    python benchmarks/blackjax_logistic.py [--one-thread] [--json FILE]
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import a9a_like
import harness

if TYPE_CHECKING:
    import jax


def one_thread() -> None:
    """Keep XLA on a single core. Call it before JAX is imported for the first time.

    XLA sizes its thread pool by the cores that the process may use, so the process is tied to one core as well.
    """
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class Peer:
    """The model, on the device, and the three samplers of its posterior.

    Each sampler is a method that returns a function without arguments: it runs ``steps`` steps from the origin, waits
    for the end and returns the last position, or the positions after every step if ``keep_draws``.

    Args:
        data: rows, labels.
        batch_size: J.
        step_size: h, in θ ← θ + h ∇log p + √(2h) ζ.
        prior_scale: standard deviation of the normal prior of every weight.
        steps: of one call.
        seed: of the keys.
        keep_draws: return every position, as ``run.draws`` does, instead of the last one.
    """

    def __init__(
        self,
        data: a9a_like.LogisticData,
        *,
        batch_size: int = 50,
        step_size: float = 1e-6,
        prior_scale: float = 1.0,
        steps: int = 10_000,
        seed: int = 0,
        keep_draws: bool = False,
    ) -> None:
        import jax
        import jax.numpy as jnp

        self.rows = jax.device_put(jnp.asarray(data.dense)), jax.device_put(jnp.asarray(data.y))
        self.n_data, self.size = data.shape
        self.batch_size, self.step_size, self.prior_scale = batch_size, step_size, prior_scale
        self.steps, self.seed, self.keep_draws = steps, seed, keep_draws

    def documented(self) -> Callable[[], "jax.Array"]:
        """As BlackJAX's documentation has it."""
        import blackjax
        import jax

        sampler = blackjax.sgld(self.automatic_gradient())

        def chain(key: Any, position: Any, rows: Any) -> Any:
            def step(position: Any, key: Any) -> Any:
                batch_key, noise_key = jax.random.split(key)
                indices = jax.random.randint(batch_key, (self.batch_size,), 0, self.n_data)
                minibatch = jax.tree.map(lambda array: array[indices], rows)
                position = sampler.step(noise_key, position, minibatch, self.step_size)
                return position, self._kept(position)

            return jax.lax.scan(step, position, jax.random.split(key, self.steps))

        return self._compiled(chain)

    def tuned(self, unroll: int = 2) -> Callable[[], "jax.Array"]:
        """As fast as we could make it with BlackJAX's own kernel."""
        import blackjax
        import jax

        sampler = blackjax.sgld(self.hand_derived_gradient)

        def chain(key: Any, position: Any, rows: Any) -> Any:
            def step(position: Any, random: Any) -> Any:
                indices, noise_key = random
                position = sampler.step(noise_key, position, _take(rows, indices), self.step_size)
                return position, self._kept(position)

            batch_key, noise_key = jax.random.split(key)
            indices = jax.random.randint(batch_key, (self.steps, self.batch_size), 0, self.n_data)
            noise_keys = jax.random.split(noise_key, self.steps)
            return jax.lax.scan(step, position, (indices, noise_keys), unroll=unroll)

        return self._compiled(chain)

    def plain_jax(self) -> Callable[[], "jax.Array"]:
        """Without BlackJAX: every random number is drawn before the loop."""
        import jax
        import jax.numpy as jnp

        def chain(key: Any, position: Any, rows: Any) -> Any:
            def step(position: Any, random: Any) -> Any:
                indices, noise = random
                drift = self.step_size * self.hand_derived_gradient(position, _take(rows, indices))
                position = position + drift + jnp.sqrt(2 * self.step_size) * noise
                return position, self._kept(position)

            batch_key, noise_key = jax.random.split(key)
            indices = jax.random.randint(batch_key, (self.steps, self.batch_size), 0, self.n_data)
            noise = jax.random.normal(noise_key, (self.steps, self.size))
            return jax.lax.scan(step, position, (indices, noise))

        return self._compiled(chain)

    def automatic_gradient(self) -> Callable[..., Any]:
        """∇log p of the posterior on a minibatch, by BlackJAX's estimator and automatic differentiation."""
        import jax
        import jax.numpy as jnp
        from blackjax.sgmcmc.gradients import grad_estimator

        def logprior(position: Any) -> Any:
            return -0.5 * jnp.dot(position, position) / self.prior_scale**2

        def loglikelihood(position: Any, datum: Any) -> Any:
            x, y = datum
            logit = jnp.dot(x, position)
            return y * logit - jax.nn.softplus(logit)

        gradient: Callable[..., Any] = grad_estimator(logprior, loglikelihood, self.n_data)
        return gradient

    def hand_derived_gradient(self, position: Any, minibatch: Any) -> Any:
        """The same: −θ/σ² + (N/J) Xᵀ(y − sigmoid(Xθ))."""
        import jax

        x, y = minibatch
        residual = y - jax.nn.sigmoid(x @ position)
        return -position / self.prior_scale**2 + (self.n_data / self.batch_size) * (residual @ x)

    def cases(self) -> list[harness.Case]:
        """All three, ready for :func:`harness.measure`."""
        return [
            harness.Case("BlackJAX, documented", self.documented(), self.steps),
            harness.Case("BlackJAX, tuned", self.tuned(), self.steps),
            harness.Case("plain JAX, noise drawn beforehand", self.plain_jax(), self.steps),
        ]

    def _kept(self, position: Any) -> Any:
        return position if self.keep_draws else None

    def _compiled(self, chain: Callable[..., Any]) -> Callable[[], "jax.Array"]:
        import jax
        import jax.numpy as jnp

        @partial(jax.jit, donate_argnums=() if self.keep_draws else 1)
        def compiled(key: Any, position: Any, rows: Any) -> Any:
            last, draws = chain(key, position, rows)
            return draws if self.keep_draws else last

        def run() -> "jax.Array":
            result: jax.Array = compiled(jax.random.key(self.seed), jnp.zeros(self.size), self.rows)
            return result.block_until_ready()

        return run


def _take(rows: Any, indices: Any) -> Any:
    import jax

    return jax.tree.map(lambda array: array.at[indices].get(mode="promise_in_bounds"), rows)


def main() -> None:
    """Time the three ways against each other."""
    parser = argparse.ArgumentParser(description="BlackJAX's SGLD on logistic regression shaped like a9a.")
    parser.add_argument("--one-thread", action="store_true", help="tie XLA to one core")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of one timed call (default %(default)s)")
    parser.add_argument("--keep-draws", action="store_true", help="return every position, not only the last")
    harness.add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.one_thread:
        one_thread()
    data = a9a_like.load()
    peer = Peer(data, batch_size=arguments.batch_size, steps=arguments.steps, keep_draws=arguments.keep_draws)
    timings = harness.measure(peer.cases(), rounds=arguments.rounds)
    settings = {"data": data.source, "n_data": data.shape[0], "parameters": data.shape[1], **vars(arguments)}
    threads = "one thread" if arguments.one_thread else "default threads"
    title = f"SGLD, logistic regression, {data.source}, J={arguments.batch_size}, {threads}"
    report_settings = {key: value for key, value in settings.items() if key != "json"}
    harness.report(title, timings, settings=report_settings, json_to=arguments.json)


if __name__ == "__main__":
    main()
