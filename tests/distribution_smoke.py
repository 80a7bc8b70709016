"""What an installed wheel can do with one extra, in the environment that has nothing else. `make dist` runs it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import stalegrad as sg

KERNEL = sg.SGLD(step_size=1e-3)
QUIET = {"steps": 200, "progress": False}


def none():
    """Samples on two engines, stores, resumes, replays, draws; the command line."""
    model = sg.testing.small_model()
    run = sg.sample(model, KERNEL, workers=2, engine="processes", store="run", **QUIET)
    run = sg.resume("run", model, steps=300, engine="threads", progress=False)
    again = sg.replay(run.trace, model)
    assert np.array_equal(again.draws, np.asarray(run.draws[:]))
    command = Path(sys.executable).with_name("stalegrad")
    for arguments in (["show", "run"], ["report", "run"]):
        subprocess.run([command, *arguments], check=True, capture_output=True)
    for name in ("torch", "jax", "numpyro", "sklearn", "ray", "mpi4py"):
        assert importlib.util.find_spec(name) is None, f"{name} came along"
    return "two engines, store, resume, replay, show and report"


def arviz():
    """To ArviZ's own format."""
    tree = sg.sample(sg.testing.small_model(), KERNEL, servers=2, engine="inline", **QUIET).to_arviz()
    assert "posterior" in tree.children
    return "run.to_arviz()"


def jax():
    """A model in JAX."""
    import jax.numpy as jnp

    model = sg.potentials.from_jax(
        lambda p: -0.5 * p**2, lambda p, d: -0.5 * (d - p) ** 2, jnp.arange(10.0), jnp.array(0.0), batch_size=2
    )
    assert sg.sample(model, sg.SGLD(step_size=1e-2), engine="inline", **QUIET).draws.shape == (1, 200, 1)
    return "from_jax"


def numpyro():
    """A model in NumPyro."""
    import numpyro as pyro
    import numpyro.distributions as dist

    def model(x, subsample_size=None):
        scale = pyro.sample("scale", dist.LogNormal())
        with pyro.plate("data", len(x), subsample_size=subsample_size) as batch:
            pyro.sample("x", dist.Normal(0.0, scale), obs=x[batch])

    potential = sg.potentials.from_numpyro(model, np.arange(10.0), subsample_size=2)
    run = sg.sample(potential, sg.SGLD(step_size=1e-3), engine="inline", **QUIET)
    assert potential.variables(run.draws)["scale"].shape == (1, 200)
    return "from_numpyro"


def torch():
    """A module in torch."""
    import torch as th

    model = sg.potentials.from_torch(th.nn.Linear(2, 2), "categorical", (th.randn(20, 2), th.zeros(20).long()))
    assert sg.sample(model, sg.SGLD(step_size=1e-3), engine="inline", **QUIET).draws.shape == (1, 200, 6)
    return "from_torch"


def examples():
    """A module in Flax."""
    import equinox
    from flax import nnx

    assert equinox.nn.Linear
    _, params = nnx.split(nnx.Linear(1, 1, rngs=nnx.Rngs(0)))
    model = sg.potentials.from_jax(
        lambda p: -sum((leaf**2).sum() for leaf in __import__("jax").tree.leaves(p)),
        lambda p, d: -0.0 * d, np.arange(4.0), params,
    )  # fmt: skip
    assert model.size == 2
    return "parameters of Flax"


def sklearn():
    """An estimator."""
    from stalegrad.sklearn import StaleClassifier

    X = np.random.default_rng(0).standard_normal((50, 2))
    fitted = StaleClassifier(steps=300, random_state=0).fit(X, X[:, 0] > 0)
    assert fitted.predict_proba(X).shape == (50, 2)
    return "StaleClassifier"


def mpi():
    """Two ranks of MPICH's own mpiexec."""
    script = Path("ranks.py")
    script.write_text(
        "import stalegrad as sg\n"
        "run = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), steps=50, engine='mpi', progress=False)\n"
        "print('updates', run.draws.shape[1])\n"
    )
    mpiexec = Path(sys.executable).with_name("mpiexec")
    done = subprocess.run([mpiexec, "-n", "2", sys.executable, script], capture_output=True, text=True, timeout=300)
    assert "updates 50" in done.stdout, done.stdout + done.stderr
    return "two ranks"


def ray():
    """A cluster that is started here."""
    run = sg.sample(sg.testing.small_model(), KERNEL, steps=50, workers=1, engine="ray", progress=False)
    assert run.draws.shape[1] == 50
    return "a local cluster"


def tensorboard():
    """Events for TensorBoard."""
    observer = sg.observers.TensorBoard("events")
    sg.sample(sg.testing.small_model(), KERNEL, engine="inline", observers=[observer], **QUIET)
    assert list(Path("events").rglob("*tfevents*"))
    return "events"


def mlflow():
    """A run of MLflow's, in a folder, which it does if it is told that one means it."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    observer = sg.observers.MLflow(tracking_uri=f"file://{Path('mlruns').resolve()}")
    sg.sample(sg.testing.small_model(), KERNEL, engine="inline", observers=[observer], **QUIET)
    assert Path("mlruns").exists()
    return "a tracked run"


def watch():
    """The live page, served while the run goes on."""
    run = sg.sample(sg.testing.small_model(), KERNEL, watch=True, **QUIET)
    assert run.draws.shape[1] == 200
    return "the page was served"


if __name__ == "__main__":
    place = Path(sg.__file__).resolve()
    assert "site-packages" in place.parts, f"stalegrad is imported from {place}"
    print(f"{globals()[sys.argv[1]]()} work")
