"""A run is its trace: for every gradient that reached a server, who sent it, how stale it was and what became of it.

Noise is addressed by (seed, chain, update) and minibatches by (seed, chain, worker, count), so a trace, a model and a
kernel determine every bit of a run. Real engines record traces, :func:`stalegrad.simulate` makes them from a model of a
cluster, and the constructors here make them from a law of staleness; :func:`stalegrad.replay` executes any of them.
"""

import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError, TraceError
from stalegrad._internal.files import write
from stalegrad._internal.look.card import Card
from stalegrad._internal.text import duration
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.noise import MAX_SEED
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.architectures import Architecture, Cost, StaleGradients
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning
from stalegrad.protocol.run_record import RunRecord
from stalegrad.protocol.staleness_counts import StalenessCounts

_FORMAT = "stalegrad-trace-2"
_WITH_COORDINATES = "stalegrad-trace-3"  # earlier versions would take its z for θ, and must not read it
_COORDINATES = "coordinates/"


@dataclass(frozen=True, eq=False)
class Trace:
    """The traces of a run's chains, and what else a replay needs to give the same bits.

    Args:
        chains: one :class:`ChainTrace` per server.
        seed: of everything random; a replay may override it.
        initial: θ_0 of each chain, (chain, n), or z_0 in its coordinates; None for the model's own start.
        record: of the run that left it, see :meth:`of_run`; None for a trace that no run has left.
        coordinates: in which the chains ran; None for those of θ.

    >>> import stalegrad as sg
    >>> trace = sg.simulate(workers=4, steps=100)
    >>> len(trace.chains), len(trace.chains[0]), trace.seed
    (1, 100, 0)
    """

    chains: tuple[ChainTrace, ...]
    seed: int = 0
    initial: Array | None = None
    record: RunRecord | None = None
    coordinates: Coordinates | None = None

    def __post_init__(self) -> None:
        # plain int, also of NumPy's integers: it goes into a JSON header
        object.__setattr__(self, "seed", whole_number("seed", self.seed, most=MAX_SEED))
        if self.record is not None and self.record.settings.seed != self.seed:
            raise TraceError(f"the trace has seed {self.seed}, and its run had {self.record.settings.seed}")

    @classmethod
    def of_run(
        cls,
        chains: tuple[ChainTrace, ...],
        record: RunRecord,
        initial: Array | None = None,
        coordinates: Coordinates | None = None,
    ) -> "Trace":
        """What a run with this record has left."""
        return cls(chains, record.settings.seed, initial, record, coordinates)

    def __len__(self) -> int:
        return len(self.chains)

    def _repr_html_(self) -> str:
        """What notebooks show: the chains, who worked for them, and how stale their gradients were."""
        return self.card().html()

    def card(self, title: str = "Trace", *facts: tuple[str, str]) -> Card:
        """The same as a card, with other facts in front."""
        counts = [chain.staleness_counts for chain in self.chains]
        both = StalenessCounts.together(counts)
        seconds = max((chain.seconds for chain in self.chains), default=0.0)
        settings = None if self.record is None else self.record.settings
        shown = [
            *facts, (f"{len(self)} × {self.workers}", "chains × workers"), (f"{both.arrived:,}", "gradients"),
            (f"{both.mean:.2f}", f"mean staleness, largest {both.largest}"),
            (f"{1 - both.accepted / max(both.arrived, 1):.1%}", "dropped"),
            *([(duration(seconds), "until the last one")] if seconds else []),
        ]  # fmt: skip
        rows = [
            (
                f"chain {s}",
                f"{each.accepted:,}",
                f"{each.arrived - each.accepted:,}",
                f"{each.mean:.2f}",
                str(each.largest),
            )
            for s, each in enumerate(counts)
        ]
        made = (
            ""
            if self.record is None
            else f"{self.record.kernels[0].get('name', '')} on {self.record.engine.get('name', '')}"
        )
        bound = (
            ""
            if settings is None or settings.max_staleness is None
            else f", τ ≤ {settings.max_staleness} ({settings.policy})"
        )
        headings = ("", "updates", "dropped", "mean τ", "max τ")
        return Card(
            title, f"{made}{bound}, seed {self.seed}", shown, headings=headings, rows=rows if len(rows) <= 16 else ()
        )

    @property
    def thinning(self) -> Thinning:
        """Which updates the run kept as draws: all of them, where there was no run."""
        return Thinning() if self.record is None else self.record.settings.thinning

    @property
    def burn_in(self) -> int:
        """Updates of each chain that were not kept."""
        return self.thinning.burn_in

    @property
    def thin(self) -> int:
        """Of those after burn-in, every thin-th was kept."""
        return self.thinning.thin

    @property
    def architecture(self) -> Architecture:
        """Who sampled and who sent what."""
        return StaleGradients() if self.record is None else self.record.settings.architecture

    @property
    def workers(self) -> int:
        """W: as the run had it, or as many as have sent gradients."""
        if self.record is not None:
            return self.record.settings.workers
        return 1 + max((int(chain.worker.max(initial=0)) for chain in self.chains), default=0)

    def cost(self) -> Cost:
        """What the run has spent, in gradients and in messages.

        >>> Trace.constant_staleness(2, steps=100).cost()
        Cost(gradients=100, messages=200)
        """
        return self.architecture.cost(self.chains, seed=self.seed, thinning=self.thinning)

    @classmethod
    def from_staleness(cls, staleness: Any, *, seed: int = 0) -> "Trace":
        """A synthetic trace: update l uses a gradient that is staleness[l] versions old.

        A row of a 2-d array is a chain. Values beyond l, which the chain's start does not allow, are cut to l.

        >>> Trace.from_staleness([3, 3, 3, 3]).chains[0].staleness.tolist()
        [0, 1, 2, 3]
        """
        try:
            rows = np.asarray(staleness)
        except ValueError:  # rows of different lengths
            rows = np.empty(0, object)
        if rows.ndim not in (1, 2) or rows.dtype.kind not in "iu" or rows.size == 0 or rows.min() < 0:
            raise ArgumentError(
                "staleness", staleness, "is not an array of whole numbers ≥ 0", "Give shape (steps,) or (chain, steps)."
            )
        rows = np.atleast_2d(rows)
        step = np.arange(rows.shape[1], dtype=np.int64)
        chains = [
            ChainTrace(
                worker=np.zeros(len(step), np.int32),
                count=step,
                staleness=np.minimum(row, step).astype(np.int32),
                accepted=np.ones(len(step), bool),
            )
            for row in rows
        ]
        return cls(tuple(chains), seed=seed)

    @classmethod
    def constant_staleness(cls, staleness: int, steps: int, *, chains: int = 1, seed: int = 0) -> "Trace":
        """Every gradient is τ versions old, the setting of figure 1 and of the closed forms."""
        tau = whole_number("staleness", staleness)
        shape = (whole_number("chains", chains, least=1), whole_number("steps", steps, least=1))
        return cls.from_staleness(np.full(shape, tau), seed=seed)

    @classmethod
    def random_staleness(cls, probabilities: Iterable[float], steps: int, *, chains: int = 1, seed: int = 0) -> "Trace":
        """Every gradient is τ versions old with probability probabilities[τ], independently."""
        remedy = "Give the weights of τ = 0, 1, 2, …, which are ≥ 0 and need not sum to 1."
        if not isinstance(probabilities, Iterable):
            raise ArgumentError("probabilities", probabilities, "is not a sequence", remedy)
        p = np.array([real_number("probabilities", value, least=0) for value in probabilities])
        if p.size == 0 or p.max() <= 0:
            raise ArgumentError("probabilities", probabilities, "has no mass", remedy)
        shape = (whole_number("chains", chains, least=1), whole_number("steps", steps, least=1))
        key = whole_number("seed", seed, most=MAX_SEED)
        uniform = np.random.Generator(np.random.Philox(key=key)).random(shape)
        cumulative = np.cumsum(p / p.max())
        return cls.from_staleness(np.searchsorted(cumulative / cumulative[-1], uniform, side="right"), seed=key)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one compressed .npz file without pickle; the old file stays until the new one is complete."""
        path = Path(path)
        columns = {f"{s}/{k}": v for s, chain in enumerate(self.chains) for k, v in chain.columns().items()}
        arrays = {name: array for name, array in {"initial": self.initial, **columns}.items() if array is not None}
        if self.coordinates is not None:
            arrays |= {f"{_COORDINATES}{name}": array for name, array in self.coordinates.arrays().items()}
        header = {
            "format": _FORMAT if self.coordinates is None else _WITH_COORDINATES,
            "chains": len(self.chains),
            "arrays": list(arrays),  # the checksums of a zip file cover what is in it, and not that all of it is there
            "seed": self.seed,
            "record": None if self.record is None else self.record.table(),
        }
        encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
        content = io.BytesIO()
        np.savez_compressed(content, header=encoded, **arrays)
        write(path, content.getbuffer(), "trace")
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read what :meth:`save` wrote; a damaged or foreign file is a :class:`TraceError`."""
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = dict(file)
            header = json.loads(arrays.pop("header").tobytes())
            if (found := header["format"]) not in (_FORMAT, _WITH_COORDINATES):
                raise TraceError(f"its format is {found!r}, and this version of stalegrad reads {_FORMAT!r}")
            if sorted(arrays) != sorted(header.pop("arrays")):
                raise TraceError("it has other contents than its header says")
            count = header.pop("chains")
            names = [f.name for f in fields(ChainTrace)]
            chains = [ChainTrace(**{k: arrays.get(f"{s}/{k}") for k in names}) for s in range(count)]  # type: ignore[arg-type]
            record = None if header["record"] is None else RunRecord.from_table(header["record"])
            of = {k.removeprefix(_COORDINATES): v for k, v in arrays.items() if k.startswith(_COORDINATES)}
            coordinates = Coordinates.from_arrays(of) if of else None
            return cls(tuple(chains), header["seed"], arrays.get("initial"), record, coordinates)
        except FileNotFoundError:
            raise
        except Exception as error:  # whatever a damaged file makes of zipfile, zlib, json and NumPy
            raise TraceError(f"{path} is not a readable stalegrad trace ({type(error).__name__}: {error})") from error
