"""``stalegrad simulate``: a cluster that is not there."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from stalegrad.cli.common import Seed, console, written
from stalegrad.engines.simulation import Constant, Exponential, Law, LogNormal, Network
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.potentials.wire import wire_format
from stalegrad.protocol.admission import Policy

if TYPE_CHECKING:
    from stalegrad.planning.scaling import Prediction


class LawName(StrEnum):
    """Laws of compute times that the command line offers."""

    constant = "constant"
    exponential = "exponential"
    lognormal = "lognormal"


class MessageName(StrEnum):
    """How points and gradients travel."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    int8 = "int8"


class PolicyName(StrEnum):
    """What happens at the staleness bound."""

    drop = "drop"
    wait = "wait"


def simulate(
    max_workers: Annotated[
        int, typer.Option(help="Try 1, 2, 4, … up to this many workers.", min=1, max=MAX_WORKERS)
    ] = 1024,
    compute: Annotated[float, typer.Option(help="Mean seconds of a gradient on a worker.", min=0)] = 0.025,
    law: Annotated[LawName, typer.Option(help="Law of those seconds.")] = LawName.lognormal,
    variation: Annotated[float, typer.Option(help="Standard deviation over mean, of the log-normal law.", min=0)] = 0.2,
    stragglers: Annotated[float, typer.Option(help="Share of the workers that are slower.", min=0, max=1)] = 0.0,
    straggler_factor: Annotated[float, typer.Option(help="How many times slower they are.")] = 5.0,
    update: Annotated[float, typer.Option(help="Seconds of an update on the server.", min=0)] = 0.001,
    latency: Annotated[float, typer.Option(help="Seconds that a message travels.", min=0)] = 5e-5,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second of the server's link, each way.")] = 1.25e9,
    parameters: Annotated[int, typer.Option(help="Parameters of the model.", min=1)] = 431_080,
    messages: Annotated[MessageName, typer.Option(help="How they travel.")] = MessageName.float32,
    max_staleness: Annotated[int | None, typer.Option(help="Bound on the staleness; none by default.", min=0)] = None,
    policy: Annotated[PolicyName, typer.Option(help="What happens at the bound.")] = PolicyName.drop,
    steps: Annotated[int, typer.Option(help="Updates to simulate for each number of workers.", min=100)] = 20_000,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", file_okay=False, writable=True, help="Folder for scaling.png and scaling.json."),
    ] = None,
) -> None:
    """Predict staleness, throughput and speedup against the number of workers, without any cluster.

    The defaults are LeNet on one core a worker and a 10 Gbit/s network.
    """
    from stalegrad.planning import scaling

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    counts = scaling.worker_numbers(max_workers)
    network = Network(latency, bandwidth, *wire_format(messages.value).message_bytes(parameters))

    def law_of(workers: int) -> Law:
        slow = round(stragglers * workers)
        factors = {workers - 1 - k: straggler_factor for k in range(slow)}
        if law is LawName.constant:
            return Constant(compute, factors=factors)
        if law is LawName.exponential:
            return Exponential(compute, factors=factors)
        return LogNormal(compute, variation, factors=factors)

    chosen: Policy = "wait" if policy is PolicyName.wait else "drop"
    with console.status("simulating…"):
        predictions = scaling.predict(
            counts, law=law_of, steps=steps, network=network, update=update, max_staleness=max_staleness,
            policy=chosen, seed=seed,
        )  # fmt: skip
    table = Table(title="One server, predicted", title_justify="left", box=None, pad_edge=False)
    dropping = any(p.dropped > 0 for p in predictions)
    for heading in ("workers", "mean τ", "max τ", *["dropped"] * dropping, "updates/s", "speedup", "busy"):
        table.add_column(heading, justify="right", no_wrap=heading != "busy")
    table.add_column("bottleneck", no_wrap=True)
    for p in predictions:
        table.add_row(
            f"{p.workers:,}", f"{p.mean_staleness:.1f}", f"{p.max_staleness:,}", *[f"{p.dropped:.0%}"] * dropping,
            f"{p.updates_per_second:,.0f}", f"{p.speedup:.1f}", _busiest(p), p.bottleneck,
        )  # fmt: skip
    console.print(table)
    mean = scaling.mean_seconds(law_of(1), 1, seed)
    said = scaling.in_a_sentence(predictions, transfer=network.longer_transfer, update=update, gradient=mean)
    console.print(Text(said))
    if out is not None:
        settings: dict[str, Any] = {
            "compute": compute, "law": law.value, "variation": variation, "stragglers": stragglers,
            "straggler_factor": straggler_factor, "update": update, "latency": latency, "bandwidth": bandwidth,
            "parameters": parameters, "messages": messages.value, "max_staleness": max_staleness, "policy": chosen,
            "steps": steps, "seed": seed,
        }  # fmt: skip
        written(*scaling.save(predictions, settings, out))


def _busiest(p: "Prediction") -> str:
    """The part of the cluster that is busiest, and how busy it is."""
    shares = {"link": p.link_busy, "server": p.server_busy, "workers": p.workers_busy}
    part = max(shares, key=shares.__getitem__)
    return f"{part} {shares[part]:.0%}"
