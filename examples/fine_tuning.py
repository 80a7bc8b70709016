"""How far may fine-tuning go?
===========================

A network that was trained on many upright digits is to read slanted ones, of which there are few. A prior N(0, 1) on
its weights would forget what they were. A prior about the trained weights says that the new ones are not far from them,
and its scale how far; where data are few the posterior stays near what was known. The slant and the scale are chosen on
images that are neither learnt from nor tested on.

``pip install 'stalegrad[sklearn,torch]'``, then ``python examples/fine_tuning.py``.
"""

import os
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.ndimage import rotate
from torch import nn
from torch.nn import functional as F

import stalegrad as sg
from stalegrad.datasets.digits import digits

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
EPOCHS, STEPS = 40, (600 if SMALL else 2_000)
SCALES = (0.05, 0.1, 0.2, 0.5)
SIZES = (10, 40) if SMALL else (10, 40, 160, 640)

# %%
# A network that reads upright digits
# -----------------------------------

data = digits()
train, train_y = data.train[:-300], data.train_y[:-300]
held_out, held_out_y = data.train[-300:], data.train_y[-300:]  # for choices: neither learnt from nor tested on
images, classes = torch.from_numpy(train), torch.from_numpy(train_y)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimiser = torch.optim.Adam(network.parameters(), lr=3e-3, weight_decay=1e-4)
for _ in range(EPOCHS):
    for batch in torch.randperm(len(images)).split(64):
        optimiser.zero_grad()
        F.cross_entropy(network(images[batch]), classes[batch]).backward()
        optimiser.step()


# %%
# The same digits, slanted
# ------------------------
# By the first multiple of 5° at which the network's loss on the images held out is above one nat: there is something
# to learn, and something known.


def slanted(rows: np.ndarray, degrees: int) -> np.ndarray:
    """Images (row, 64), turned."""
    turned = rotate(rows.reshape(-1, 8, 8), degrees, axes=(1, 2), reshape=False, order=1)
    return turned.reshape(len(rows), 64).astype(np.float32)


def untouched(rows: np.ndarray, y: np.ndarray) -> float:
    """The loss of the network as it is."""
    with torch.no_grad():
        return F.cross_entropy(network(torch.from_numpy(rows)), torch.from_numpy(y)).item()


degrees = next(angle for angle in range(5, 90, 5) if untouched(slanted(held_out, angle), held_out_y) > 1)
print(f"a slant of {degrees}°: {untouched(slanted(held_out, degrees), held_out_y):.3f} nats on the images held out")
few, validation, test = (slanted(rows, degrees) for rows in (train, held_out, data.test))

# %%
# How far the weights may go
# --------------------------
# ``Centred(s)`` is N(θ₀, s²) on every weight, with θ₀ where the module is now. Its scale is the one with the smallest
# loss on the images held out, after forty slanted ones.


def fine_tuned(prior: Any, size: int, rows: np.ndarray, y: np.ndarray) -> Any:
    """Scores on some images of the posterior given ``size`` slanted ones."""
    potential = sg.potentials.from_torch(network, "categorical", (few[:size], train_y[:size]), prior=prior)
    kernel = sg.SGHMC(step_size=5e-3, friction=5.0, integrator="splitting")
    run = sg.sample(potential, kernel, steps=STEPS, workers=2, burn_in=STEPS // 3, thin=20, seed=0, progress=False)
    return run.predict(potential.predictive(rows)).scores(y)


found = {scale: fine_tuned(sg.priors.Centred(scale), 40, validation, held_out_y).nll for scale in SCALES}
scale = min(found, key=lambda each: found[each])
print("held out:", ", ".join(f"scale {each:g}: {loss:.3f}" for each, loss in found.items()))

# %%
# Three priors, and a growing number of slanted images
# ----------------------------------------------------
# Priors may differ by name: the last one lets the first layer, which sees the pixels, go four times as far as the
# second.

PRIORS = {
    "N(0, 1)": 1.0,
    f"N(θ₀, {scale:g}²)": sg.priors.Centred(scale),
    "by layer": {"0.*": sg.priors.Centred(scale), "*": sg.priors.Centred(scale / 4)},
}
losses: dict[str, list[float]] = {name: [] for name in PRIORS}
for size in SIZES:
    for name, prior in PRIORS.items():
        scores = fine_tuned(prior, size, test, data.test_y)
        losses[name].append(scores.nll)
        print(f"{size:4d} images, {name}: test loss {scores.nll:.3f}, accuracy {scores.accuracy:.3f}")
as_it_was = untouched(test, data.test_y)
print(f"the network as it was: test loss {as_it_was:.3f}")

# %%
# A picture of it
# ---------------

figure, panel = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
for name, values in losses.items():
    panel.plot(SIZES, values, "o-", label=name)
panel.axhline(as_it_was, color="0.6", linestyle=":", label="not fine-tuned")
panel.set(xscale="log", xlabel="slanted images seen", ylabel="test loss, nats")
panel.set_xticks(SIZES, [str(size) for size in SIZES], minor=False)
panel.minorticks_off()
panel.legend(frameon=False)
plt.show()
