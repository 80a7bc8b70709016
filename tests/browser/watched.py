"""The run that the browser's tests watch: 2 chains × 3 workers in processes, which goes on until it is told to end.

    python watched.py begin|resume FOLDER PORT

prints the addresses of its page. It ends when a file ``end`` is in the folder beside its store.
"""

import sys
import time
from pathlib import Path

import numpy as np

import stalegrad as sg

STEPS = 100_000


class Model(sg.potentials.Potential):
    """A logistic regression whose gradients take some milliseconds, until it is to end."""

    fork_safe = True

    def __init__(self, end):
        random = np.random.default_rng(0)
        X = random.normal(size=(2000, 5))
        y = (random.random(2000) < 1 / (1 + np.exp(-X @ np.ones(5)))).astype(int)
        self.inner, self.end = sg.potentials.Logistic(X, y, batch_size=50), end
        super().__init__(self.inner.size, self.inner.minibatches, self.inner.dtype)

    def gradient(self, theta, indices):
        time.sleep(0.003 * (1 + indices[0] % 7 / 7))
        return self.inner.gradient(theta, indices)

    def minibatch_loss(self, theta, indices):
        return self.inner.minibatch_loss(theta, indices)


class Ends(sg.observers.Observer):
    """Ends the run as Ctrl-C would, when the file is there."""

    every = 0.1

    def __init__(self, end):
        self.end = end

    def snapshot(self, snapshot):
        import os
        import signal

        if self.end.exists() and snapshot.state == "running":
            os.kill(os.getpid(), signal.SIGINT)


def main(what, folder, port):
    folder = Path(folder)
    end = folder / "end"
    model, observers = Model(end), [Ends(end)]
    functions = {"first <b>coefficient</b>": lambda theta: float(theta[0]), "norm": lambda theta: float(theta @ theta)}
    others = {
        "engine": "processes", "progress": False, "observers": observers, "functions": functions,
        "checkpoint_every": 0.5, "watch": sg.Watch(port=int(port)),
    }  # fmt: skip
    if what == "begin":
        kernel = sg.SGLD(step_size=1e-4)
        shape = {"steps": STEPS, "workers": 3, "servers": 2, "max_staleness": 3}
        run = sg.sample(model, kernel, store=folder / "run", **shape, **others)
    else:
        run = sg.resume(folder / "run", model, **others)
    print("ended", run.interrupted, flush=True)
    while not (folder / "leave").exists():  # the page stays while the process does
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
