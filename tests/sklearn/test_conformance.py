"""scikit-learn's own checks of its conventions. None is excused.

One is skipped by scikit-learn itself, about arrays of other libraries: it runs for estimators that claim to take them.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from stalegrad.sklearn import StaleClassifier, StaleRegressor

pytestmark = pytest.mark.long


@parametrize_with_checks([StaleClassifier(steps=1000, burn_in=200), StaleRegressor(steps=1000, burn_in=200)])
def test_follows_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)
