"""A small task in place of a9a's, and chains and figures of a few made-up numbers."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from stalegrad.datasets import Dataset
from stalegrad.experiments.losses import averaging, chain_run, curves, figure, grids, tasks, units
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_record import ChainRecord

LENGTH = 60


def logistic_model(rows):
    """Made-up data: so many rows to learn from, a third of that to test with."""
    rng = np.random.Generator(np.random.Philox(key=1))
    dense = rng.integers(2, size=(rows + rows // 3, 6)).astype(np.float32)
    labels = np.where(dense.sum(1) + rng.standard_normal(len(dense)) > 3, 1, -1)
    parts = [csr_array(part) for part in (dense[:rows], dense[rows:])]
    data = Dataset("small", parts[0], labels[:rows], parts[1], labels[rows:], ("no", "yes"), "made for a test")
    return tasks.LogisticModel(data, batch_size=50)


def use(model, monkeypatch, **changes):
    """Let it be a9a's task."""
    monkeypatch.setitem(tasks.TASKS, "a9a", replace(tasks.TASKS["a9a"], **changes))
    for module in (figure, units, averaging, chain_run, grids):
        monkeypatch.setattr(module, "model_of", lambda name, batch_size, layers="caffe": model)
    return model


def name(workers=1, chain=0, seed=0, **changes):
    return ChainName(**{"task": "a9a", "workers": workers, "chain": chain, "seed": seed, "lr": 0.01, **changes})


def record(loss, at=(1, 2), workers=1, predictive=((0.5,),), kept=(1,), **facts):
    return ChainRecord(
        name(workers), 9.0, np.array(at), np.array(loss), np.array(kept), np.log(np.array(predictive)),
        {"seconds": 0.0, **facts},
    )  # fmt: skip


def extent(layouts, records, iterations=2, seeds=1):
    """What is drawn of these records of a9a's chains."""
    return curves.Extent(
        tasks.TASKS["a9a"],
        layouts,
        records,
        iterations,
        seeds,
        lambda layout, seed: layout.chains(seed, task="a9a", lr=0.01),
    )
