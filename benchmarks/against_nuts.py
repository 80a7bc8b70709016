"""Seconds to 100 effective draws of the slowest coefficient, beside NUTS, for 100 to 1,000,000 data.

Logistic regression with 20 coefficients on made-up data. Ours is ``sg.sample(potential, steps=…)`` with J = 100 and
nothing else, warm-up included; NumPyro's NUTS uses all data at each step, its adaptation included. One core, one
thread, and processor seconds. Compiling is left out: ours is called once before with few steps, the loop of NUTS is
compiled before it is called. Effective draws are those of the slowest coefficient, as its mean counts them; the seconds
to 100 of them are those before sampling plus 100 over their rate.

    python benchmarks/against_nuts.py [--sizes 100 1000 10000] [--json FILE]
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import cores
import harness
from crossing import first_below
from results import Bar, Result

COEFFICIENTS = 20
CHUNK = 10
"""Draws of NUTS that one compiled call makes."""
WANTED = 100
"""Effective draws of the slowest coefficient."""
TEXT = """
Logistic regression with {coefficients} coefficients, made-up data, one core, processor seconds. Ours is
`sg.sample(potential, steps={steps:,})` with J = {batch_size} and nothing else, with its warm-up; NUTS uses all data at
every step and has {adaptation} draws of adaptation, both included. Compiling is left out. *Mean off by* is the largest
distance of our posterior means from those of NUTS in posterior standard deviations, with its standard error.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Seconds to 100 effective draws, beside NUTS, by the number of data.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--draws", type=int, default=200, help="of NUTS (default %(default)s)")
    parser.add_argument("--adaptation", type=int, default=300, help="of NUTS (default %(default)s)")
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, sizes=[100, 1000], steps=2000, draws=20, adaptation=20)


def data(rows: int) -> tuple[Any, Any]:
    """Correlated columns and a constant one, a quarter of the labels positive."""
    rng = np.random.default_rng(301)
    x = rng.normal(size=(rows, COEFFICIENTS)).astype(np.float32)
    x += rng.normal(size=(rows, 1)).astype(np.float32)
    x[:, 0] = 1.0
    beta = np.concatenate([[-1.3], np.linspace(-0.5, 0.5, COEFFICIENTS - 1)])
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ beta))
    return x, y.astype(np.int32)


def ours(x: Any, y: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Seconds before sampling and of it, and the draws."""
    import stalegrad as sg
    import warmup_split

    potential = sg.potentials.Logistic(x, y, batch_size=min(given.batch_size, len(y)), prior_scale=2.5)
    warmup_split.sample(potential, steps=1000)  # compiles
    split = warmup_split.sample(potential, steps=given.steps)
    return {"before": split.warmup, "sampling": split.sampling, "draws": split.run.draws}


def nuts(x: Any, y: Any, given: argparse.Namespace) -> dict[str, Any]:
    """The same of NumPyro."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import NUTS

    X, labels = jnp.asarray(x), jnp.asarray(y)

    def potential(beta: Any) -> Any:
        logits = X @ beta
        return 0.5 * jnp.sum(jnp.square(beta / 2.5)) - jnp.sum(labels * logits - jax.nn.softplus(logits))

    kernel = NUTS(potential_fn=potential)
    state = kernel.init(jax.random.key(0), given.adaptation, jnp.zeros(COEFFICIENTS), (), {})

    def next_draw(state: Any, _: Any) -> Any:
        state = kernel.sample(state, (), {})
        return state, state.z

    draw_some = jax.jit(lambda state: jax.lax.scan(next_draw, state, None, length=CHUNK)).lower(state).compile()
    marks, kept = [time.process_time()], []
    for draws in (given.adaptation, given.draws):
        kept = []
        for _ in range(-(-draws // CHUNK)):
            state, some = draw_some(state)
            kept.append(np.asarray(some))
        marks.append(time.process_time())
    return {"before": marks[1] - marks[0], "sampling": marks[2] - marks[1], "draws": np.concatenate(kept)[None]}


def finished(found: dict[str, Any]) -> dict[str, Any]:
    """Seconds to so many effective draws, from the seconds and the draws."""
    from classics.summary import summarise

    summary = summarise({"beta": found["draws"]})
    ess = float(summary["beta"].ess.min())
    to_wanted = found["before"] + WANTED * found["sampling"] / ess
    return {"before": found["before"], "sampling": found["sampling"], "ess": ess, "seconds": to_wanted, "is": summary}


def main() -> None:
    """Measure and report."""
    given = arguments()
    cores.one_core()
    from classics.accuracy import compare

    rows, figures, ratios = [], [], []
    for size in given.sizes:
        x, y = data(size)
        mine, theirs = finished(ours(x, y, given)), finished(nuts(x, y, given))
        judged = compare(mine.pop("is"), theirs.pop("is"))
        off = f"{judged.mean.off:.2f} ± {judged.mean.error:.2f}"
        ratios.append(mine["seconds"] / theirs["seconds"])
        rows.append(
            [f"{size:,}", mine["before"], mine["seconds"], theirs["before"], theirs["seconds"], ratios[-1], off]
        )
        figures.append({"n_data": size, "ours": mine, "nuts": theirs, "mean": vars(judged.mean), "sd": vars(judged.sd)})
        print(rows[-1], flush=True)
    text = TEXT.format(coefficients=COEFFICIENTS, **vars(given))
    result = Result("Seconds to 100 effective draws, by the number of data", text, vars(given))
    headings = ["N", "our warm-up, s", "ours, s", "adaptation, s", "NUTS, s", "ours over NUTS", "mean off by"]
    result.table(f"Processor seconds to {WANTED} effective draws of the slowest coefficient", headings, rows)
    series = {
        name: (given.sizes, [each[key]["seconds"] for each in figures])
        for name, key in (("stalegrad", "ours"), ("NumPyro, NUTS, all data", "nuts"))
    }
    result.curves("against_nuts", "Seconds to 100 effective draws", "number of data", "seconds", series)
    wins = first_below(given.sizes, ratios, 1.0)
    result.figures = {"sizes": figures, "wins_from": wins}
    result.bars = [Bar(f"Seconds beside NUTS at N = {given.sizes[-1]:,}", series["stalegrad"][1][-1],
                       series["NumPyro, NUTS, all data"][1][-1], 1.0, at_least=False, unit="s")]  # fmt: skip
    result.finish(given.json)
    print("we win nowhere" if wins is None else f"we win from N = {wins:,.0f} on")


if __name__ == "__main__":
    main()
