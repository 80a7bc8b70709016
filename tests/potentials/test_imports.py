"""What the package exports, and what importing it leaves alone."""

import subprocess
import sys

from stalegrad import potentials


def test_exported_names():
    assert sorted(potentials.__all__) == [
        "ControlVariates", "GaussianMean", "Linear", "Logistic", "Minibatches", "Potential", "SVRG", "Softmax",
        "VarianceReport", "Wrapper", "control_variates", "find_mode", "from_gradient", "from_jax", "from_loader",
        "from_numpyro", "from_torch", "natural", "networks", "priors", "svrg",
    ]  # fmt: skip
    assert all(hasattr(potentials, name) for name in potentials.__all__)


def test_importing_needs_no_optional_library():
    code = "import sys; sys.modules.update(jax=None, numpyro=None, scipy=None, torch=None); import stalegrad.potentials"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_loads_no_optional_library():
    code = "import sys, stalegrad.potentials; print(*{'jax', 'numpyro', 'scipy.sparse', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
