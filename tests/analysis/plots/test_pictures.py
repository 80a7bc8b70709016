"""The pictures hold what they say: the right lines, labels and counts, in every kind of run."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import stalegrad as sg
from stalegrad.analysis import plots
from stalegrad.analysis.estimates import autocovariance, mcse, running_average
from stalegrad.analysis.plots.quantities import virtual_time
from stalegrad.analysis.plots.staleness import counts_by_worker, staleness_bins
from stalegrad.analysis.plots.style import _columns
from stalegrad.analysis.plots.throughput import throughput
from stalegrad.analysis.plots.traces import envelope
from stalegrad.engines import Event, Timing
from stalegrad.protocol.trace import Trace

from .cases import Made, autoregression, model, sample, uneven, without_draws


@pytest.fixture(scope="module")
def run():
    return sample()


@pytest.fixture(scope="module")
def quantity(run):
    return plots.choose(run, {"θ² in $": lambda theta: float(theta @ theta)}).quantities[0]


@pytest.fixture
def axes():
    return plots.Picture().subplots()


def labels(axes):
    return axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")


def said(axes):
    return [text.get_text() for text in axes.texts]


def test_traces_show_every_draw_of_every_chain(axes):
    (quantity,) = plots.choose(uneven(), {"φ": lambda theta: theta[0]}).quantities
    plots.draw_traces(axes, quantity)
    assert labels(axes) == ("updates of the chain", "φ", "φ")
    assert len(axes.lines) == 3
    for line, chain, updates in zip(axes.lines, quantity.chains, quantity.updates, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), updates)
        np.testing.assert_array_equal(line.get_ydata(), chain)


def test_long_traces_are_drawn_by_their_outline():
    y = np.random.Generator(np.random.Philox(key=5)).standard_normal(100_003)
    at, outline = envelope(np.arange(y.size), y, bins=800)
    assert len(at) <= 1600
    assert np.all(np.diff(at) > 0)
    np.testing.assert_array_equal(outline, y[at])
    for part in np.split(np.arange(y.size), np.linspace(0, y.size, 801).astype(int)[1:-1]):
        shown = outline[(at >= part[0]) & (at <= part[-1])]
        assert (shown.min(), shown.max()) == (y[part].min(), y[part].max())


def test_the_running_average_and_its_band_are_those_of_the_draws_so_far(axes, quantity):
    running = plots.running_estimate(quantity)
    assert running.draws[[0, -1]].tolist() == [4, 135]
    for length, value, error in zip(*running, strict=True):
        values, weights = quantity.common[:, :length], quantity.weights[:, :length]
        assert value == pytest.approx(np.average(values, weights=weights), rel=1e-12)
        assert error == pytest.approx(float(mcse(values, step_sizes=weights)), rel=1e-12)
    plots.draw_running_average(axes, quantity)
    assert labels(axes) == ("updates of each chain", "φ̂", "θ² in $")
    assert [line.get_label() for line in axes.lines] == ["chain 0", "chain 1", "chain 2", "all chains"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), running_average(quantity.common[1], quantity.weights[1]))
    np.testing.assert_array_equal(axes.lines[3].get_ydata(), running.value)
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices
    assert edges[:, 1].max() == pytest.approx((running.value + 2 * running.error).max())
    assert edges[:, 1].min() == pytest.approx((running.value - 2 * running.error).min())


def test_the_band_covers_the_truth_although_draws_are_correlated():
    """With ρ = 0.8 the band of independent draws would be 3 times too narrow and cover in half of the cases.

    400 runs. For normal averages and exact errors a band covers with probability 0.954; these errors are estimates and
    a little on the safe side. At 0.93, fewer than 342 of 400 have a probability below 1e-7.
    """
    values = autoregression(0.8, (800, 500), seed=8).reshape(400, 2, 500)
    covered, sizes, averages = np.zeros(3), [], []
    for chains in values:
        (quantity,) = plots.choose(Made(chains[:, :, None])).quantities
        running = plots.running_estimate(quantity, points=3)
        covered += np.abs(running.value) < 2 * running.error
        sizes.append(running.error[-1])
        averages.append(running.value[-1])
    assert np.all(covered[1:] >= 342)  # the first is after 166 draws, 18 times as long as they remember
    assert 0.9 < np.mean(sizes) / np.std(averages) < 1.4


def test_autocorrelations_are_those_of_the_estimates(axes, quantity):
    plots.draw_autocorrelation(axes, quantity, lags=40)
    assert labels(axes) == ("lag, in draws of 2 updates", "autocorrelation", "θ² in $")
    assert len(axes.lines) == 3
    for line, chain in zip(axes.lines, quantity.common, strict=True):
        gamma = autocovariance(chain)
        np.testing.assert_allclose(line.get_ydata(), gamma[:41] / gamma[0], rtol=1e-12)
        np.testing.assert_allclose(plots.autocorrelation(chain), gamma / gamma[0], rtol=1e-12)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(41))


def test_quantities_that_say_nothing_are_told_so(axes):
    constant = plots.choose(Made(np.ones((2, 20, 1)))).quantities[0]
    plots.draw_autocorrelation(axes, constant)
    assert said(axes) == ["a chain does not vary"]
    short = plots.choose(Made(np.ones((2, 3, 1)))).quantities[0]
    for draw in (plots.draw_autocorrelation, plots.draw_running_average):
        panel = plots.Picture().subplots()
        draw(panel, short)
        assert said(panel) == ["3 draws a chain: too few"]


@pytest.mark.parametrize("largest", [0, 3, 39, 40, 500])
def test_staleness_counts_are_those_of_the_trace(largest):
    rng = np.random.Generator(np.random.Philox(key=largest))
    trace = Trace.from_staleness(rng.integers(0, largest + 1, (2, 3000)))
    chains = [replace(chain, worker=rng.integers(0, 4, 3000).astype(np.int32)) for chain in trace.chains]
    bins = staleness_bins(chains)
    rows = counts_by_worker(chains, bins)
    assert [(s, worker) for s, worker, _ in rows] == [(s, worker) for s in range(2) for worker in range(4)]
    assert len(bins.names) <= 42
    for s, worker, counts in rows:
        tau = chains[s].staleness[chains[s].worker == worker]
        assert counts.sum() == tau.size
        for k, count in enumerate(counts):
            assert count == np.count_nonzero((tau >= bins.edges[k]) & (tau < bins.edges[k + 1]))


def test_the_histogram_shows_used_and_dropped_gradients(axes, run):
    chains = run.trace.chains
    assert not all(chain.accepted.all() for chain in chains)
    plots.draw_staleness(axes, chains)
    bins = staleness_bins(chains)
    assert bins.names == ["0", "1", "2", "3", "4", "5", "6", "≥ 7"]
    assert [text.get_text() for text in axes.get_xticklabels()] == bins.names
    heights = np.array([bar.get_height() for bar in axes.patches[: 6 * len(bins.names)]]).reshape(3, 2, -1)
    for chain, (used, dropped) in zip(chains, heights, strict=True):
        exact = np.bincount(chain.staleness[chain.accepted], minlength=8)
        np.testing.assert_allclose(used * len(chain), exact, atol=1e-9)
        assert round(dropped[-1] * len(chain)) == len(chain) - chain.steps
        assert dropped[:-1].sum() == 0
    lost = sum(len(chain) - chain.steps for chain in chains)
    assert axes.get_legend_handles_labels()[1][-1] == f"dropped, {lost}"


def test_the_map_of_workers_has_a_row_each_with_their_shares(axes, run):
    plots.draw_staleness_by_worker(axes, run.trace.chains)
    shares = np.ma.filled(axes.collections[0].get_array(), 0.0).reshape(9, 8)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    chain = run.trace.chains[1]
    slow = chain.staleness[chain.worker == 2]
    np.testing.assert_allclose(shares[5], np.bincount(np.minimum(slow, 7), minlength=8) / slow.size)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == [f"chain {s}, worker {w}" for s in range(3) for w in range(3)]


def test_throughput_counts_every_update(axes, run):
    plots.draw_throughput(axes, run.trace.chains, virtual=True)
    assert labels(axes)[:2] == ("virtual seconds", "updates a second")
    stairs = {patch.get_label(): patch.get_data() for patch in axes.patches}
    assert list(stairs) == ["chain 0", "chain 1", "chain 2", "all chains", "dropped"]
    counts = {name: float(np.sum(data.values * np.diff(data.edges))) for name, data in stairs.items()}
    lost = sum(len(chain) - chain.steps for chain in run.trace.chains)
    expected = {"chain 0": 300, "chain 1": 300, "chain 2": 300, "all chains": 900, "dropped": lost}
    assert counts == pytest.approx(expected)


def test_a_steady_rate_in_rounds_is_drawn_as_steady():
    times = np.repeat(np.arange(1.0, 101.0), 64)  # 64 workers who answer together once a second
    np.testing.assert_allclose(throughput([times], np.linspace(0, 100, 38)).rate, 64.0)


@pytest.mark.parametrize(("seconds", "unit"), [(100.0, "seconds"), (3600.0, "minutes"), (86_400.0, "hours")])
def test_long_runs_are_drawn_in_minutes_and_hours(axes, run, seconds, unit):
    chain = replace(run.trace.chains[0], time=np.linspace(0, seconds, len(run.trace.chains[0])))
    event = Event(seconds / 2, 0, 1, "died", "signal 9")
    plots.draw_throughput(axes, [chain], [event])
    assert axes.get_xlabel() == unit
    in_units = seconds / {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
    assert axes.get_xlim() == (0, in_units)
    assert axes.lines[-1].get_xdata() == pytest.approx([in_units / 2])
    assert axes.lines[-1].get_label() == "a worker died, 1"


def test_a_trace_without_times_is_told_so(axes):
    plots.draw_throughput(axes, Trace.constant_staleness(2, 50).chains)
    assert said(axes) == ["the trace holds no times"]


def test_virtual_time_is_told_from_measured_also_in_a_replay(run):
    assert virtual_time(run)
    assert not virtual_time(replace(run, timing=Timing()))
    replayed = replace(run, trace=replace(run.trace, record=replace(run.trace.record, engine={"name": "threads"})))
    assert not virtual_time(replayed)
    assert virtual_time(replace(run, trace=replace(run.trace, record=None)))


def synthetic():
    return sg.replay(Trace.constant_staleness(3, 50), model(), sg.SGLD(step_size=1e-3))


EDGES = {
    "one draw": lambda: sample(steps=2, burn_in=0),
    "one chain, one worker": lambda: sample(servers=1, workers=1, steps=60, engine="inline"),
    "uneven": uneven,
    "one chain has no draws": lambda: uneven((200, 120, 0)),
    "no chain has draws": without_draws,
    "no times": synthetic,
    "more chains than colours": lambda: sample(servers=8, steps=60),
    "threads": lambda: sample(engine="threads", steps=60),
}


@pytest.mark.parametrize("case", EDGES)
def test_every_kind_of_run_can_be_drawn(case):
    run = EDGES[case]()
    figure = run.plot(parameters=["theta[1]"])
    figure.draw_without_rendering()
    drawn = 0 if case == "no chain has draws" else 1
    panels = [axes for part in figure.subfigs for axes in part.axes]
    assert len(panels) - 3 * drawn in (2, 3)  # staleness and throughput, and a scale of colours if there is any


def test_the_overview_puts_functions_first_and_names_what_it_shows(run):
    figure = run.plot({"θ²": lambda theta: float(theta @ theta)}, ["theta[1]"])
    panels = figure.subfigs[0].axes
    assert [axes.get_title(loc="left") for axes in panels[::3]] == ["θ²", "theta[1]"]
    (legend,) = figure.legends
    entries = [text.get_text() for text in legend.get_texts()]
    assert entries == [
        "chain 0", "chain 1", "chain 2", "± 2 standard errors", "all chains", "independent draws, 95%", "dropped"
    ]  # fmt: skip


def test_files_have_the_pictures(run, tmp_path):
    written = plots.plot_run(run, tmp_path / "made" / "here", {"θ²": lambda theta: float(theta @ theta)})
    names = ["overview", "traces", "running_averages", "autocorrelation", "densities", "forest", "ranks"]
    names += ["noted", "staleness", "throughput", "workers"]
    assert written == [tmp_path / "made" / "here" / f"{name}.png" for name in names]
    assert sorted(written) == sorted((tmp_path / "made" / "here").iterdir())
    for path in written:
        with Image.open(path) as image:
            assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
            assert image.size[0] >= 1300


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_fewer_colours_leave_the_ground_as_it_is(run, theme):
    from io import BytesIO

    image = Image.open(BytesIO(plots.png(plots.pictures(run, [], theme)["staleness"])))
    ground = tuple(round(255 * part) for part in to_rgb(theme.paper))
    assert image.convert("RGB").getpixel((0, 0)) == ground


def test_names_are_drawn_as_they_are_whatever_they_hold(run):
    names = ["$\\frac$", "a $b", "<b>&amp;</b>", "x" * 200, "", "名"]
    quantities = [replace(plots.choose(run, parameters="theta[0]").quantities[0], name=name) for name in names]
    with pytest.warns(UserWarning, match="missing from font"):  # the last, and nothing else
        plots.panels(quantities, plots.draw_traces).draw_without_rendering()


def test_legends_break_where_the_picture_ends():
    assert _columns([7, 7, 10], 8.4) == 3
    assert _columns([7, 7, 10, 7, 26, 26, 20], 8.4) == 3
    assert _columns([200], 8.4) == 1


@pytest.mark.long
def test_pictures_leave_pyplot_alone(fresh_python):
    code = """
import sys
import numpy as np
import stalegrad as sg

data = np.random.default_rng(0).standard_normal((20, 2))
run = sg.sample(
    sg.potentials.GaussianMean(data, batch_size=2), sg.SGLD(step_size=1e-3), steps=20, engine="inline", progress=False
)
assert "matplotlib" not in sys.modules
assert run.plot()._repr_png_().startswith(b"\\x89PNG")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = fresh_python("-c", code)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
