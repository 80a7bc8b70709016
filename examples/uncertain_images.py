"""When does a network not know?
=============================

A small convolutional network on images of digits, sampled in cycles. Its predictions are averaged while it is being
sampled, on test images, on the same images turned by a quarter, and on noise, and no draw is kept. A network that has
seen no such image should say so; how well it does is one number, the AUROC.
"""

# %%
# The images are scikit-learn's, 8 by 8 pixels, so that the page needs no download. ``stalegrad reproduce deep`` makes
# the same comparison with LeNet on MNIST.

import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import stalegrad as sg
from stalegrad.analysis.estimates import auroc, false_positive_rate

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
CYCLES, PERIOD = (2, 200) if SMALL else (6, 1_000)

images = load_digits()
rng = np.random.default_rng(0)
order = rng.permutation(len(images.target))
X, y = (images.images[order] / 16).astype(np.float32)[:, None], images.target[order]
train, test = slice(0, 1_300), slice(1_300, None)
turned = np.ascontiguousarray(np.rot90(X[test], axes=(-2, -1)))
noise = rng.uniform(0, 1, X[test].shape).astype(np.float32)

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 12, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(12 * 3 * 3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10),
)  # fmt: skip
model = sg.potentials.from_torch(network, "categorical", (X[train], y[train]), batch_size=64)

# %%
# Every cycle begins with large steps at temperature 0, which is SGD with momentum, and ends with small steps that
# sample. Only these are draws. ``averages=`` takes predictions in as draws come; with labels the progress shows scores.

kernel = sg.SGHMC.from_sgd(lr=0.05, momentum=0.9, n_data=model.n_data).in_cycles(PERIOD, explore=0.6)
run = sg.sample(
    model, kernel, steps=CYCLES * PERIOD, thin=10, engine="inline", progress=False, keep="none",
    averages={
        "test": (model.predictive(X[test]), y[test]),
        "turned": model.predictive(turned),
        "noise": model.predictive(noise),
    },
)  # fmt: skip
known, turned_ones, noises = (run.averages[name] for name in ("test", "turned", "noise"))
scores = known.scores(y[test])
print(f"{known.count} draws, none kept: {run.draws.shape[1]} in memory")
print(f"test images: accuracy {scores.accuracy:.3f}, NLL {scores.nll:.3f}, ECE {scores.calibration_error:.3f}")
for name, strange in (("turned", turned_ones), ("noise", noises)):
    print(
        f"{name}: AUROC {auroc(known.entropy, strange.entropy):.3f} by entropy, "
        f"{auroc(known.mutual_information, strange.mutual_information):.3f} by mutual information; "
        f"FPR at 95 % {false_positive_rate(known.entropy, strange.entropy):.2f}"
    )

# %%
# The entropies of the three kinds, how far confidence can be relied on, and what abstaining gains. The network is sure
# of nearly all test images, so that the other points of the second picture are of a few images each, and jump. Below
# them the test images that it is least and most sure of.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
bins = np.linspace(0, np.log(10), 30)
for label, each in (("test", known), ("turned", turned_ones), ("noise", noises)):
    axes[0].hist(each.entropy, bins, density=True, alpha=0.5, label=label)
axes[0].set(xlabel="entropy, nats", yscale="log", title="how uncertain")
axes[0].legend(frameon=False)
curve = known.reliability(y[test])
axes[1].plot([0, 1], [0, 1], color="0.8")
axes[1].plot(curve.confidence[curve.count > 0], curve.accuracy[curve.count > 0], "o-")
axes[1].set(xlabel="confidence", ylabel="accuracy", title="reliability")
abstaining = known.risk_coverage(y[test])
axes[2].plot(abstaining.coverage, abstaining.risk)
axes[2].set(xlabel="share of images answered", ylabel="error rate", title="risk and coverage")

figure, axes = plt.subplots(2, 8, figsize=(11, 3), layout="constrained")
unsure = np.argsort(known.entropy)
for row, chosen in zip(axes, (unsure[::-1][:8], unsure[:8]), strict=True):
    for axis, k in zip(row, chosen, strict=True):
        axis.imshow(X[test][k, 0], cmap="gray_r")
        axis.set_title(f"{known.probabilities[k].argmax()}: {known.probabilities[k].max():.2f}", fontsize=9)
        axis.axis("off")
plt.show()
