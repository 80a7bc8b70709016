"""Built-in models with compiled gradients: the mean of normal data, linear, logistic and softmax regression.

One file a model; ``design_matrix.py`` is how they all hold features, dense, sparse or one-hot. A model here has a
formula for its gradient: whatever needs automatic differentiation is a front end.
"""

from stalegrad.potentials.glm.gaussian import GaussianMean
from stalegrad.potentials.glm.linear import Linear
from stalegrad.potentials.glm.logistic import Logistic
from stalegrad.potentials.glm.softmax import Softmax

__all__ = ["GaussianMean", "Linear", "Logistic", "Softmax"]
