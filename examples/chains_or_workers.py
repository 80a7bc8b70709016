"""Chains or workers?
==================

Sixteen cores. Sixteen chains of one worker, one chain of fifteen, or something between? Chains divide what comes after
the burn-in and have fresh gradients. Workers divide all of it, and make gradients old.
"""

# %%
# Theory answers for a posterior of a given curvature: how long an update may be for a bias of 5 % at the staleness of
# W workers, and how many updates the burn-in and an effective draw then take. The simulator says how many updates a
# second W workers make.

import os

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 1_000 if SMALL else 10_000
CORES, GRADIENT, UPDATE = 16, 20e-3, 2e-4
SOFT, STIFF = 1.0, 50.0  # curvatures of the posterior: its slowest and its narrowest direction


def longest_step(staleness):
    """The longest step of SGLD whose variance along the stiff direction is right to 5 %."""
    low, high = 0.0, float(sg.theory.stability_limit(STIFF, staleness))
    for _ in range(40):
        middle = (low + high) / 2
        wrong = abs(STIFF * sg.theory.stale_sgld(STIFF, middle, staleness).variance - 1) > 0.05
        low, high = (low, middle) if wrong else (middle, high)
    return low


def workers_of(chains):
    """Workers of each chain: a core of each chain is its server's, unless it has but one."""
    return max(1, CORES // chains - 1)


RATES = {}
for chains in (1, 2, 4, 8, 16):
    trace = sg.simulate(workers=workers_of(chains), steps=STEPS, compute=sg.Exponential(GRADIENT), update=UPDATE)
    RATES[chains] = STEPS / trace.chains[0].seconds


def seconds(chains, step, burn_in, draws):
    """Until there are so many effective draws after a burn-in, both counted in times in which a chain forgets."""
    memory = 1 / (SOFT * step)  # updates in which the slow direction forgets by a factor of e
    return memory * (burn_in + 2 * draws / chains) / RATES[chains]


# %%
# Three tasks, and two ways to use gradients: as they come, with a step that is short enough for their age; or with
# the server owning the linear part, so that, on a posterior that is nearly normal, the step is that of fresh
# gradients.

CASES = {"start in the posterior": (0.5, 400), "a long way to go": (60, 400), "far away, few draws": (100, 20)}
ways = {
    "gradients as they come": lambda chains: longest_step(workers_of(chains) - 1),
    "staleness compensated": lambda chains: longest_step(0),
}
figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, constrained_layout=True)
for axis, (way, step) in zip(axes, ways.items(), strict=True):
    for case, task in CASES.items():
        times = np.array([seconds(chains, step(chains), *task) for chains in RATES])
        best = list(RATES)[int(np.argmin(times))]
        print(f"{way}, {case}: {best} chains of {workers_of(best)}, {times.min():.0f} s")
        (line,) = axis.plot(list(RATES), times, "o-", label=case)
        axis.plot(best, times.min(), "o", ms=12, mfc="none", color=line.get_color())
    axis.set(xscale="log", yscale="log", xticks=list(RATES), xlabel="chains on 16 cores", title=way)
    axis.set_xticklabels([f"{chains}\n× {workers_of(chains)}" for chains in RATES])
axes[0].set_ylabel("seconds to the same precision")
axes[1].legend(frameon=False)
plt.show()

# %%
# Used as they come, old gradients want steps so short that workers never pay: chains it is. Where staleness is taken
# away, workers pay when most of the run is burn-in. ``sg.sample`` without a kernel does take it away.
#
# For a job of your own ``stalegrad plan job.toml --machines 2 --cores 8`` measures gradients and updates on this
# machine and makes the same comparison, with the command to type at the end.
