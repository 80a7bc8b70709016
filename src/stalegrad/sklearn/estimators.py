"""The estimators: a linear predictor with a normal prior on its weights, and averages over the posterior of them."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.analysis.estimates import PredictiveAverage
from stalegrad.kernels import Kernel
from stalegrad.potentials import Linear, Logistic, Softmax
from stalegrad.potentials.glm.design_matrix import DesignMatrix
from stalegrad.potentials.mode import find_mode
from stalegrad.runs.sample import sample
from stalegrad.runs.warmup.options import Warmup

Model = Linear | Logistic | Softmax

LEAST_NOISE = 1e-3
"""Of the responses' standard deviation: the noise of a regression is not estimated below it."""

_MOST_PASSES = 2000  # on all data, for finding a mode
_LEAST_PILOT = 4000  # gradients of the warm-up's pilot chains: these posteriors have one mode


class _LinearModel(BaseEstimator):  # type: ignore[misc]
    """What both share: arguments, standardised features, sampling."""

    def __init__(
        self,
        *,
        prior_scale: float = 1.0,
        steps: int = 5000,
        burn_in: int | None = None,
        thin: int = 10,
        batch_size: int | None = None,
        workers: int = 1,
        servers: int = 1,
        engine: Any = "inline",
        kernel: Kernel | None = None,
        standardise: bool = True,
        random_state: Any = None,
    ) -> None:
        self.prior_scale = prior_scale
        self.steps = steps
        self.burn_in = burn_in
        self.thin = thin
        self.batch_size = batch_size
        self.workers = workers
        self.servers = servers
        self.engine = engine
        self.kernel = kernel
        self.standardise = standardise
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.engine != "inline"  # elsewhere gradients arrive in an order of their own
        return tags

    def _checked(self, X: Any, **y: Any) -> Any:
        """X, or X and y, as arrays; refused unless X has the columns of training."""
        return validate_data(self, X, **y, reset=bool(y), accept_sparse="csr", dtype=np.float64)

    def _standardised(self, X: Any) -> tuple[Any, Array, Array]:
        """X̃ = (X − m)/s, m and s. A sparse X stays sparse, so that its m is 0."""
        m, s = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if not self.standardise:
            return X, m, s
        scaler = StandardScaler(with_mean=not sparse.issparse(X))
        scaled = scaler.fit_transform(X)
        return scaled, scaler.mean_ if scaler.with_mean else m, scaler.scale_

    def _sample(self, model: Callable[..., Model], X: Any, y: Array, **options: Any) -> Array:
        """Draws of the weights of X̃, (draw, output, feature), the intercept last."""
        prior_scale = real_number("prior_scale", self.prior_scale, above=0)
        steps = whole_number("steps", self.steps, least=1)
        potential = model(
            X, y, prior_scale=prior_scale, batch_size=self.batch_size, intercept=True, dtype=np.float64, **options
        )
        start = find_mode(potential, passes=_MOST_PASSES, progress=False)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found = self.kernel is None or (isinstance(self.kernel, Kernel) and self.kernel.undecided)
        self.run_ = sample(
            potential, self.kernel, steps=steps, burn_in=self.burn_in, thin=self.thin, workers=self.workers,
            servers=self.servers, engine=self.engine, initial=start, seed=seed, progress=False,
            warmup=Warmup(gradients=max(_LEAST_PILOT, steps // 4)) if found else None,
        )  # fmt: skip
        if self.run_.interrupted:
            raise KeyboardInterrupt
        self.draw_weights_ = (self.run_.step_sizes / self.run_.step_sizes.sum()).ravel()
        draws = self.run_.draws.reshape(-1, potential.size)
        return draws.reshape(len(draws), -1, X.shape[1] + 1)

    def _keep(self, weights: Array, m: Array, s: Array) -> None:
        """The draws and their average, as weights of the features as they were given."""
        self.coef_draws_ = weights[..., :-1] / s
        self.intercept_draws_ = weights[..., -1] - self.coef_draws_ @ m
        self.coef_ = np.tensordot(self.draw_weights_, self.coef_draws_, axes=1)
        self.intercept_ = np.tensordot(self.draw_weights_, self.intercept_draws_, axes=1)


class StaleClassifier(ClassifierMixin, _LinearModel):  # type: ignore[misc]
    """Bayesian logistic regression; with more than two classes, softmax regression.

    The prior is N(0, ς²) on every weight and intercept. Probabilities are averages over the posterior,
    p̂(y | x) = Σ_l h_l p(y | x, θ_l) / Σ_l h_l, so that they are less certain where the data say little.

    Args:
        prior_scale: ς, on the scale of standardised features.
        steps: L, updates of each chain.
        burn_in: updates of each chain that are not kept; None to have it chosen, or for none where the kernel has all
            its numbers and chains start at the posterior's mode.
        thin: keep every thin-th update after that.
        batch_size: J, data behind one gradient; None for all. Small minibatches, like many workers, may make the
            sampler take small steps: ``run_.warmup`` says so, give more of them then.
        workers: W, workers of each chain.
        servers: S, chains.
        engine: ``"inline"``, the same for the same ``random_state``; or ``"threads"``, ``"processes"``, an engine
            object: parallel, and the order of arrival differs from run to run.
        kernel: the sampler, in the coordinates of the standardised features. What it leaves out, and everything if it
            is None, is found by the warm-up of :func:`stalegrad.sample`, in coordinates of its own.
        standardise: give features mean 0 and variance 1 first; sparse ones variance 1 alone.
        random_state: an int, a generator of NumPy's old kind, or None.

    Attributes:
        classes_: the labels.
        coef_: posterior mean of the weights, (1, feature) or (class, feature).
        intercept_: likewise, (1,) or (class,).
        coef_draws_: the draws themselves, (draw, …).
        intercept_draws_: likewise.
        draw_weights_: of each draw in averages, h_l / Σh.
        run_: the :class:`~stalegrad.Run`, with draws of the weights of standardised features; ``run_.warmup`` says
            which sampler was used, with which step.

    >>> X, y = [[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]], ["no", "no", "yes", "no", "yes", "yes"]
    >>> model = StaleClassifier(random_state=0).fit(X, y)
    >>> model.predict([[-1.5], [1.5]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.predict_proba([[0.0]]).round(1)
    array([[0.5, 0.5]])
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Sample the posterior.

        Args:
            X: (N, feature), an array or a sparse matrix.
            y: N labels.
        """
        X, y = self._checked(X, y=y)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ArgumentError("y", y, "holds one class only", "Give labels of two classes at least.")
        scaled, m, s = self._standardised(X)
        if count == 2:
            weights = self._sample(Logistic, scaled, labels)
        else:
            weights = self._sample(Softmax, scaled, labels, n_classes=count)
        self._keep(weights, m, s)
        return self

    def predict_proba(self, X: Any) -> Array:
        """p̂(y | x) of every row and class, (row, class)."""
        check_is_fitted(self)
        X = self._checked(X)
        average = PredictiveAverage()
        for coef, intercept, weight in zip(self.coef_draws_, self.intercept_draws_, self.draw_weights_, strict=True):
            scores = X @ coef.T + intercept
            average.add(softmax(scores, axis=1) if len(coef) > 1 else expit(scores * [-1, 1]), weight)
        return average.probabilities

    def predict_log_proba(self, X: Any) -> Array:
        """log p̂(y | x) of every row and class."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> Array:
        """The most probable label of every row."""
        probabilities = self.predict_proba(X)
        labels: Array = self.classes_[probabilities.argmax(axis=1)]
        return labels


class StaleRegressor(RegressorMixin, _LinearModel):  # type: ignore[misc]
    """Bayesian linear regression: y ~ N(xᵀw + b, σ²), with the prior N(0, ς²) on every weight and on b.

    Args:
        noise_scale: σ, on the scale of y. None for the σ under which the data are most probable once the weights are
            integrated out (type II maximum likelihood), which takes time cubic in the number of features.
        prior_scale: ς, on the scale of standardised features and responses.
        steps: as in :class:`StaleClassifier`, like all that follows.
        burn_in: see there.
        thin: see there.
        batch_size: see there.
        workers: see there.
        servers: see there.
        engine: see there.
        kernel: see there.
        standardise: see there; y is standardised too.
        random_state: see there.

    Attributes:
        coef_: posterior mean of the weights, (feature,).
        intercept_: and of b.
        noise_scale_: σ, on the scale of y.
        coef_draws_: the draws themselves, (draw, feature).
        intercept_draws_: likewise, (draw,).
        draw_weights_: of each draw in averages, h_l / Σh.
        run_: the :class:`~stalegrad.Run`, with draws of the weights of standardised features; ``run_.warmup`` says
            which sampler was used, with which step.

    >>> X = np.arange(20.0)[:, None]
    >>> model = StaleRegressor(random_state=0).fit(X, 3 * X[:, 0] + np.tile([1.0, -1.0], 10))
    >>> mean, deviation = model.predict([[10.0], [100.0]], return_std=True)
    >>> deviation.round()
    array([1., 4.])
    """

    def __init__(
        self,
        *,
        noise_scale: float | None = None,
        prior_scale: float = 1.0,
        steps: int = 5000,
        burn_in: int | None = None,
        thin: int = 10,
        batch_size: int | None = None,
        workers: int = 1,
        servers: int = 1,
        engine: Any = "inline",
        kernel: Kernel | None = None,
        standardise: bool = True,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            prior_scale=prior_scale, steps=steps, burn_in=burn_in, thin=thin, batch_size=batch_size, workers=workers,
            servers=servers, engine=engine, kernel=kernel, standardise=standardise, random_state=random_state,
        )  # fmt: skip
        self.noise_scale = noise_scale

    def fit(self, X: Any, y: Any) -> Self:
        """Sample the posterior.

        Args:
            X: (N, feature), an array or a sparse matrix.
            y: N responses.
        """
        X, y = self._checked(X, y=y, y_numeric=True)
        centre, unit = (y.mean(), y.std() or 1.0) if self.standardise else (0.0, 1.0)
        scaled, m, s = self._standardised(X)
        responses = (y - centre) / unit
        if self.noise_scale is None:
            noise = most_probable_noise(scaled, responses, self.prior_scale)
        else:
            noise = real_number("noise_scale", self.noise_scale, above=0) / unit
        self.noise_scale_ = noise * unit
        weights = self._sample(Linear, scaled, responses, noise_scale=noise)[:, 0]
        self._keep(weights * unit, m, s)
        self.intercept_draws_ += centre
        self.intercept_ += centre
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Posterior mean of xᵀw + b for every row.

        Args:
            X: (row, feature).
            return_std: also give the standard deviation of a response at x: √(Var(xᵀw + b) + σ²).
        """
        check_is_fitted(self)
        X = self._checked(X)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        deviations = X @ (self.coef_draws_ - self.coef_).T + (self.intercept_draws_ - self.intercept_)
        return mean, np.sqrt(np.square(deviations) @ self.draw_weights_ + self.noise_scale_**2)


def most_probable_noise(X: Any, y: Array, prior_scale: float) -> float:
    """argmax_σ p(y | X, σ) on a fine grid, where y ~ N(0, σ²I + ς²XXᵀ) once the weights are integrated out.

    With the eigenvalues e_j > 0 of XᵀX, r in number, and the squares c_j of the projections of y on their directions,

        −2 log p = (N − r) log σ² + (|y|² − Σ c_j)/σ² + Σ_j [log(σ² + ς²e_j) + c_j/(σ² + ς²e_j)].

    Args:
        X: (N, feature), without the column of ones that the intercept has; it is added here.
        y: the responses.
        prior_scale: ς.
    """
    square, product = DesignMatrix(X, np.dtype(np.float64), intercept=True).gram(y)
    e, directions = np.linalg.eigh(square)
    known = e > 1e-10 * e[-1]
    e, c = e[known], np.square(directions.T @ product)[known] / e[known]
    grid = (y.std() or 1.0) * np.geomspace(LEAST_NOISE, 1, 500)
    variance, rest = grid**2, max(y @ y - c.sum(), 0.0)
    spread = variance[:, None] + real_number("prior_scale", prior_scale, above=0) ** 2 * e
    cost = (len(y) - len(e)) * np.log(variance) + rest / variance + (np.log(spread) + c / spread).sum(axis=1)
    return float(grid[cost.argmin()])
