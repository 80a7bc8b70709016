"""Is a Bayesian last layer enough?
================================

To be Bayesian about the last layer of a trained network alone is cheap: what the layers below make of the images does
not change while the last one is sampled, so that it is computed once, and a gradient costs what one linear layer does.
Does it make the network less sure of images unlike those it has learnt from? The images are the 8 × 8 digits that
scikit-learn brings along.

``pip install 'stalegrad[sklearn,torch]'``, then ``python examples/last_layer.py``.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import stalegrad as sg
from stalegrad.datasets.digits import digits

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
EPOCHS, STEPS = (15, 1_000) if SMALL else (30, 6_000)

# %%
# A small network, trained as usual
# ---------------------------------

data = digits()
images, test = (torch.from_numpy(x.reshape(-1, 1, 8, 8)) for x in (data.train, data.test))
classes = torch.from_numpy(data.train_y)

torch.manual_seed(0)
network = nn.Sequential()
network.add_module("features", nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()))
network.add_module("flat", nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 32), nn.Tanh()))
network.add_module("head", nn.Linear(32, 10))

optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
for _ in range(EPOCHS):
    for batch in torch.randperm(len(images)).split(64):
        optimiser.zero_grad()
        F.cross_entropy(network(images[batch]), classes[batch]).backward()
        optimiser.step()

# %%
# Sample the head
# ---------------
# ``sample="head.*"`` names what is sampled; all else is constant, and ``frozen`` says what became of it.

potential = sg.potentials.from_torch(
    network.eval(), "categorical", (images, classes), prior=1.0, batch_size=324, sample="head.*"
)
print(f"{potential.size} parameters are sampled: {', '.join(potential.layout)}")
print(f"the frozen part is {potential.frozen}")

kernel = sg.SGHMC(step_size=2e-3, friction=50.0)
run = sg.sample(potential, kernel, steps=STEPS, workers=2, burn_in=STEPS // 5, thin=20, seed=0, progress=False)

# %%
# How sure should one be?
# -----------------------
# The optimised network, and the average over draws: on the test images, and on the same images turned by 90°, of which
# most are no digits any more. ``predictive`` passes the images through the frozen layers once.

turned = torch.rot90(test, 1, dims=(2, 3))


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Of each row, in nats: 0 where the network is sure, 2.3 where all ten classes are alike."""
    return -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)


shown = {}
for name, inputs in (("test images", test), ("turned by 90°", turned)):
    predict = potential.predictive(inputs)
    point, average = predict(potential.initial()), run.predict(predict)
    shown[name] = entropy(point), entropy(average.probabilities)
    wrong = "" if name != "test images" else f", log-likelihood {average.scores(data.test_y).mean_log_likelihood:.4f}"
    print(f"{name}: mean entropy {shown[name][0].mean():.3f} optimised, {shown[name][1].mean():.3f} averaged{wrong}")
point_likelihood = potential.log_likelihood(potential.initial(), test, data.test_y).mean()
print(f"log-likelihood of the optimised network: {point_likelihood:.4f}")

# %%
# A picture of it
# ---------------
# The optimised network is hardly too sure of these images, and averaging over its last layer changes little: compare
# the numbers above. It cannot repair what the frozen layers make of an image that is no digit any more.

figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharex=True, layout="constrained")
for panel, (name, (point, average)) in zip(panels, shown.items(), strict=True):
    bins = np.linspace(0, np.log(10), 24)
    panel.hist(point, bins, histtype="step", color="0.5", label="optimised")
    panel.hist(average, bins, color="C0", alpha=0.6, label="averaged over the last layer")
    panel.set(title=name, xlabel="entropy of the prediction", ylabel="images")
panels[0].legend(frameon=False)
plt.show()
