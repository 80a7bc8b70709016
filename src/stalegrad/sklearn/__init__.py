"""Bayesian linear models as scikit-learn estimators: ``fit`` samples, ``predict`` averages over the draws.

``estimators.py`` has the estimators. No sampling and no tuning of its own: both are :func:`stalegrad.sample`'s. The
rest of stalegrad does not import this folder.
"""

from stalegrad._internal.errors import MissingExtra

try:
    from stalegrad.sklearn.estimators import StaleClassifier, StaleRegressor
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "sklearn":
        raise
    raise MissingExtra("stalegrad.sklearn", "sklearn") from error

__all__ = ["StaleClassifier", "StaleRegressor"]
