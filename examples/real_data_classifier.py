"""How sure is the classifier, and is it right to be?
==================================================

A scikit-learn estimator on real data: 569 biopsies, 30 measurements of each. ``fit`` samples the posterior of a
logistic regression, ``predict_proba`` averages over its draws, and the weights have intervals.
"""

# %%
# The estimator goes where any other goes: pipelines, cross-validation, grids.

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stalegrad.sklearn import StaleClassifier

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 3_000 if SMALL else 20_000

X, y = load_breast_cancer(return_X_y=True)
train_X, test_X, train_y, test_y = train_test_split(X, y, train_size=100, random_state=0, stratify=y)

bayes = StaleClassifier(prior_scale=1.0, steps=STEPS, servers=2, random_state=0).fit(train_X, train_y)
point = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(train_X, train_y)

# %%
# Both are trained on a hundred biopsies, and asked about the other 469. The prior N(0, 1) and C = 1 are the same
# penalty of the weights; that of the intercept is ours alone. Here the average predicts no better than the point.

for name, model in {"posterior average": bayes, "point estimate": point}.items():
    p = model.predict_proba(test_X)
    print(f"{name:18} accuracy {model.score(test_X, test_y):.3f}, log loss {log_loss(test_y, p):.3f}")
print(bayes.run_.summary().head())

# %%
# Left: the two probabilities of each biopsy. Right: what the average has been taken over, the weights, with the
# intervals that a point estimate does not have. Few are known to be positive or negative: the measurements go with
# each other.

ours, theirs = (model.predict_proba(test_X)[:, 1] for model in (bayes, point))
draws = bayes.coef_draws_.reshape(len(bayes.coef_draws_), -1) * train_X.std(axis=0)  # a deviation of each measurement
order = np.argsort(draws.mean(0))
low, high = np.quantile(draws, [0.05, 0.95], axis=0)
wrong = (theirs > 0.5) != test_y

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
left.plot([0, 1], [0, 1], color="0.8", zorder=0)
left.plot(theirs[~wrong], ours[~wrong], ".", color="#4c72b0", alpha=0.5, label="classified rightly")
left.plot(theirs[wrong], ours[wrong], "x", color="#c44e52", label="wrongly")
left.set(xlabel="point estimate", ylabel="posterior average", title="probability of being benign")
left.legend(frameon=False)
right.hlines(np.arange(30), low[order], high[order], color="#4c72b0", lw=3, alpha=0.6)
right.plot(draws.mean(0)[order], np.arange(30), "k.", ms=4)
right.axvline(0, color="0.8", zorder=0)
right.set(title="weights: mean and 90 % interval", yticks=[], xlabel="log-odds for a deviation of the measurement")
plt.show()
