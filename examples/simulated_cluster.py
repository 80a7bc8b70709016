"""What would 64 workers do?
=========================

Before you ask for the machines: how stale would gradients be, when is the server the bottleneck, and how much faster is
it? ``sg.simulate`` answers in virtual time, with the times of your own gradient, network and update.
"""

# %%
# A gradient of 25 ms, with stragglers; a network with 0.1 ms of latency and 1 GB/s at the server; a model of a
# million parameters, whose update takes 1 ms.

import os

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 2_000 if SMALL else 20_000

compute = sg.LogNormal(mean=25e-3, variation=0.5)
network = sg.Network(latency=1e-4, bandwidth=1e9, message_bytes=4_000_000)

counts = [1, 2, 4, 8, 16, 32, 64, 128]
traces = {
    workers: sg.simulate(workers=workers, steps=STEPS, compute=compute, network=network, update=1e-3)
    for workers in counts
}

# %%
# Updates a second grow with W until the server or its link is busy all the time. Staleness goes on growing: gradients
# wait in the server's queue, and those that wait longest are used all the same.

rates = np.array([STEPS / trace.chains[0].seconds for trace in traces.values()])
ages = [trace.chains[0].staleness for trace in traces.values()]
for workers, rate, age in zip(counts, rates, ages, strict=True):
    late = np.quantile(age, 0.99)
    print(f"{workers:4} workers: {rate:6.0f} updates/s, staleness {age.mean():5.1f}, one in a hundred above {late:.0f}")

# %%
# What staleness allows is a matter of the step size. ``sg.theory`` has the largest step that is stable at the
# curvature λ = 1.

stable = [float(sg.theory.stability_limit(1.0, int(np.ceil(age.mean())))) for age in ages]

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
left.loglog(counts, rates, "o-", color="#4c72b0")
left.loglog(counts, rates[0] * np.array(counts), ":", color="0.5")
left.set(title="updates a second (dotted: linear)", xlabel="workers")
for workers in (8, 32, 128):
    age = traces[workers].chains[0].staleness
    middle.hist(age, bins=np.arange(0, 3 * workers), density=True, histtype="step", label=f"{workers} workers")
middle.set(title="staleness of gradients", xlabel="updates", yticks=[], xscale="symlog")
middle.legend(frameon=False)
right.loglog(counts, stable, "o-", color="#c44e52")
right.set(title="largest stable step of SGLD at λ = 1", xlabel="workers")
plt.show()
