"""How far may fine-tuning go?
===========================

A network that was trained on many upright digits is to read slanted ones, of which there are few. A prior N(0, 1) on
its weights would forget what they were. A prior about the trained weights says that the new ones are not far from them,
and its scale how far; where data are few the posterior stays near what was known.

``pip install 'stalegrad[sklearn,torch]'``, then ``python examples/fine_tuning.py``.
"""

import os

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
DEGREES, SIZES = 15, ((10, 40) if SMALL else (10, 40, 160, 640))

# %%
# A network that reads upright digits
# -----------------------------------

data = digits()
images, classes = torch.from_numpy(data.train), torch.from_numpy(data.train_y)
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


def slanted(rows: np.ndarray) -> np.ndarray:
    """Images (row, 64), turned."""
    turned = rotate(rows.reshape(-1, 8, 8), DEGREES, axes=(1, 2), reshape=False, order=1)
    return turned.reshape(len(rows), 64).astype(np.float32)


few, few_classes = slanted(data.train), data.train_y
test = slanted(data.test)

# %%
# Three priors, and a growing number of slanted images
# ----------------------------------------------------
# ``Centred(0.2)`` is N(θ₀, 0.2²) on every weight, with θ₀ where the module is now. Priors may differ by name: the last
# one lets the first layer, which sees the pixels, go further than the second.

PRIORS = {
    "N(0, 1)": 1.0,
    "N(θ₀, 0.2²)": sg.priors.Centred(0.2),
    "by layer": {"0.*": sg.priors.Centred(0.2), "*": sg.priors.Centred(0.05)},
}
losses: dict[str, list[float]] = {name: [] for name in PRIORS}
for size in SIZES:
    for name, prior in PRIORS.items():
        potential = sg.potentials.from_torch(network, "categorical", (few[:size], few_classes[:size]), prior=prior)
        kernel = sg.SGHMC(step_size=5e-3, friction=5.0, integrator="splitting")
        run = sg.sample(potential, kernel, steps=STEPS, workers=2, burn_in=STEPS // 3, thin=20, seed=0, progress=False)
        scores = run.predict(potential.predictive(test)).scores(data.test_y)
        losses[name].append(-scores.mean_log_likelihood)
        print(f"{size:4d} images, {name}: test loss {-scores.mean_log_likelihood:.3f}, accuracy {scores.accuracy:.3f}")
untouched = -potential.log_likelihood(potential.initial(), test, data.test_y).mean()
print(f"the network as it was: test loss {untouched:.3f}")

# %%
# A picture of it
# ---------------

figure, panel = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
for name, values in losses.items():
    panel.plot(SIZES, values, "o-", label=name)
panel.axhline(untouched, color="0.6", linestyle=":", label="not fine-tuned")
panel.set(xscale="log", xlabel="slanted images seen", ylabel="test loss, nats")
panel.set_xticks(SIZES, [str(size) for size in SIZES], minor=False)
panel.minorticks_off()
panel.legend(frameon=False)
plt.show()
