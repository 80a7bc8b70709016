"""Bayesian linear models as scikit-learn estimators."""

from stalegrad.errors import MissingExtra

try:
    from stalegrad.sklearn.estimators import StaleClassifier, StaleRegressor
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("sklearn", "scipy"):
        raise
    raise MissingExtra("stalegrad.sklearn", "sklearn") from error

__all__ = ["StaleClassifier", "StaleRegressor"]
