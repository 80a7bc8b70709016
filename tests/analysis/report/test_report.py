"""The page about a run: whole in itself, told in full, safe with any text, and right in every kind of run."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import stalegrad as sg
from stalegrad.analysis.diagnostics import Finding, Findings, Measurement, Recommendation
from stalegrad.analysis.diagnostics.checks.mixing import RHAT_LIMIT
from stalegrad.analysis.report import write_report
from stalegrad.analysis.report.summaries import Summary, estimates_table, mixing_table
from stalegrad.engines import Event, Inline, Timing
from stalegrad.kernels import kernel_table
from stalegrad.kernels.code import kernel_code
from stalegrad.protocol.trace import Trace

DATA = np.random.Generator(np.random.Philox(key=12)).standard_normal((40, 5))
SLOW_THIRD = Inline(compute=sg.LogNormal(1.0, 0.4, factors={2: 4.0}), update=0.01)
VOID = {"meta", "img", "source", "br", "hr", "link", "input"}
HOSTILE = "<script>alert('x')</script> & \"$body\" </pre>"


class Reader(HTMLParser):
    """Collects tags, attributes and text, and whether every tag is closed in order."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.attributes, self.parts = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.parts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.parts))

    def values(self, tag, name):
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]


def found(name, what, severity="warning", why="It matters.", remedy="Set steps=1000."):
    return Finding(Measurement(name, 1.31, 1.05, what), severity, why, remedy)


def model():
    return sg.potentials.GaussianMean(DATA, batch_size=4)


KERNEL = sg.SGHMC(step_size=sg.schedules.Polynomial(a=0.02, gamma=0.1), friction=5.0, integrator="splitting")


def sample(kernel=KERNEL, **options):
    usual = {
        "steps": 300, "servers": 2, "workers": 3, "max_staleness": 6, "burn_in": 30, "thin": 2, "engine": SLOW_THIRD,
        "progress": False, "seed": 5,
    }  # fmt: skip
    return sg.sample(model(), kernel, **{**usual, **options})


def read(folder, run, **options):
    path = write_report(run, folder, **{"parameters": ["theta[1]"], **options})
    return Reader(path.read_text(encoding="utf-8"))


@pytest.fixture
def unpainted(monkeypatch):
    """Pictures are put together and not painted, which takes most of the time; the first page here has them in full."""
    monkeypatch.setattr("stalegrad.analysis.report.report.png", lambda figure: b"\x89PNG")


@pytest.fixture(scope="module")
def run():
    return sample()


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "made" / "on the way"
    path = write_report(
        run, folder, title="A page", findings=Findings(), functions={"θ²": lambda theta: float(theta @ theta)}
    )
    assert path == folder / "report.html"
    source = path.read_text(encoding="utf-8")
    return source, Reader(source)


def test_the_page_needs_nothing_but_itself(page):
    source, reader = page
    assert not re.search(r"https?://|//[a-z]+\.|@import|<script|<link|url\(|\$", source)
    links = [value for _, name, value in reader.attributes if name in ("src", "srcset", "href", "action", "data")]
    anchors = {link for link in links if link.startswith("#")}
    assert all(link.startswith("data:image/png;base64,") for link in links if link not in anchors)
    assert anchors == {f"#{name}" for name in reader.values("h2", "id")}


def test_the_page_has_all_sections_pictures_and_no_hole(page):
    _, reader = page
    for heading in (
        "A page", "Estimates", "How far to trust it", "What happened", "What was run", "How to reproduce it",
        "No warning fired.", "Made by stalegrad",
    ):  # fmt: skip
        assert heading in reader.text
    assert not re.search(r"\bnan\b|None|\binf\b", reader.text)
    light, dark = reader.values("img", "src"), reader.values("source", "srcset")
    assert len(light) == len(dark) == 10  # pairs need two quantities; all others are there
    assert all(reader.values("img", "alt"))
    grounds = set()
    for uri in light + dark:
        with Image.open(BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
            grounds.add(image.convert("RGB").getpixel((0, 0)))
    assert grounds == {(255, 255, 255), (0x17, 0x1A, 0x21)}
    assert reader.tags.count("figcaption") == 10


def test_the_page_follows_the_readers_screen_and_prints(page):
    source, reader = page
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source
    assert reader.values("meta", "content")[0] == "width=device-width, initial-scale=1"
    for ink in ("--paper: #ffffff", "--paper: #171a21"):  # as in the pictures
        assert ink in source


def test_the_numbers_are_those_of_the_run(page, run):
    _, reader = page
    phi = run.estimate(lambda theta: float(theta @ theta))
    shown = re.search(r"θ² (\S+) ± (\S+) (\S+) (\S+) to (\S+)", reader.text).groups()
    value, error, spread, low, high = (float(number.replace("−", "-")) for number in shown)
    assert value == pytest.approx(float(phi), abs=0.51 * 10 ** -len(shown[0].partition(".")[2]))
    assert error == pytest.approx(phi.standard_error, rel=0.06)
    squares, weights = run.evaluate(lambda theta: float(theta @ theta)), run.step_sizes
    deviation = np.sqrt(np.average((squares - float(phi)) ** 2, weights=weights))
    assert spread == pytest.approx(deviation, rel=0.006)
    order = np.argsort(squares.ravel())
    share = np.cumsum(weights.ravel()[order]) / weights.sum()
    for quantile, tail in ((low, 0.05), (high, 0.95)):
        assert quantile == pytest.approx(squares.ravel()[order][np.searchsorted(share, tail)], rel=0.006)
    for s, chain in enumerate(run.trace.chains):
        tau = chain.staleness[chain.accepted]
        row = f"chain {s} {chain.steps:,} {len(chain) - chain.steps:,} {tau.mean():.2f} {tau.max()}"
        assert row in reader.text
    for fact in (
        "SGHMC on 5 parameters: 2 chains of 300 updates, with gradients from 3 workers each.",
        "GaussianMean, 5 parameters, 40 data in minibatches of 4",
        "SGHMC with step size Polynomial (a 0.02, b 1.0, gamma 0.1), temperature 1, friction 5, integrator splitting",
        "2 servers × 3 workers, on engine “inline”",
        "at most 6; gradients beyond are dropped",
        "270 in all; the first 30 updates of a chain left out; one kept of every 2 updates",
        "virtual seconds",
        f"python {'.'.join(map(str, __import__('sys').version_info[:3]))}",
        f"stalegrad {sg.__version__}",
    ):
        assert fact in reader.text


def test_the_recipes_on_the_page_give_the_same_draws(page, run, tmp_path, monkeypatch):
    replay, anew = (part for part in page[1].parts if part.startswith(("import stalegrad", "run = sg.sample")))
    run.trace.save(tmp_path / "trace.npz")
    monkeypatch.chdir(tmp_path)
    replay = replay.replace("model = ...", "model = make()")
    names = {"make": model}
    exec(replay, names)
    np.testing.assert_array_equal(names["run"].draws, run.draws)
    exec(anew.replace('engine="inline"', "engine=engine, progress=False"), names | {"engine": SLOW_THIRD}, names)
    np.testing.assert_array_equal(names["run"].draws, run.draws)


@pytest.mark.parametrize(
    "kernel",
    [
        sg.SGLD(step_size=1e-3, temperature=0.5),
        sg.SGHMC(step_size=sg.schedules.Cyclical(peak=0.03, period=7, floor=0.005), friction=5.0),
        sg.SGNHT(step_size=0.02, noise=2.0, thermostats="each"),
        sg.PSGLD(step_size=sg.schedules.Inverse(base=0.1)),
        sg.BAOAB(step_size=0.1, friction=2.0),
        sg.SGRLD(step_size=0.1, metric=sg.metrics.ExpandedMean(), natural=True),
    ],
)
def test_kernels_are_written_as_one_would_write_them(kernel):
    assert eval(kernel_code(kernel_table(kernel)), {"sg": sg}) == kernel


def test_a_kernel_that_a_table_describes_is_written_the_same_way():
    table = {"name": "SGLD", "step_size": {"name": "Polynomial", "a": 0.1, "b": 1.0}, "temperature": 1.0}
    assert kernel_code(table) == "sg.SGLD(step_size=sg.schedules.Polynomial(a=0.1, b=1.0))"


@pytest.mark.usefixtures("unpainted")
def test_findings_are_told_with_what_to_do(run, tmp_path):
    bad = found("R-hat", "R-hat of theta[3] is 1.31", "serious")
    measured = (bad.measurement, Measurement("dropped", 0.01, 0.1, "1% of the gradients were dropped"))
    findings = Findings((bad,), measured, {"gradient noise": "needs the model"})
    reader = read(tmp_path, run, findings=findings)
    for words in (
        "1 warning fired.", "R-hat of theta[3] is 1.31.", "It matters.", "What helps: Set steps=1000.",
        "1% of the gradients were dropped", "not checked: needs the model",
    ):  # fmt: skip
        assert words in reader.text
    assert "verdict serious" in reader.values("div", "class")
    assert "No warning fired" not in reader.text
    well = read(tmp_path, run, findings=Findings((), measured))
    assert "No warning fired. 2 checks were made, and all figures are in order." in well.text
    assert "verdict good" in well.values("div", "class")


@pytest.mark.usefixtures("unpainted")
def test_what_to_do_is_said_once_as_a_call(run, tmp_path):
    recommended = Recommendation({"steps": 9000}, (sg.SGLD(step_size=0.01),), 64, "Write it non-centred.")
    bad = found("R-hat", "R-hat of theta[3] is 1.31", remedy="More draws.")
    text = read(tmp_path, run, findings=Findings((bad,), (bad.measurement,), {}, recommended)).text
    for words in (
        "Write it non-centred.",
        "batch_size=64",
        "sg.sample(potential, sg.SGLD(step_size=0.01), steps=9_000)",
    ):
        assert text.count(words) == 1


@pytest.mark.usefixtures("unpainted")
def test_a_chain_that_has_not_arrived_has_no_standard_error(run, tmp_path):
    noise = np.random.Generator(np.random.Philox(key=1)).standard_normal((2, 135))
    way = {"φ": noise + np.linspace(0, 50, 135), "ψ": noise}
    text = read(tmp_path, run, functions=way, parameters=None).text
    assert "A chain of φ is still on its way to the posterior" in text
    assert text.count("± ?") == 1


@pytest.mark.usefixtures("unpainted")
def test_without_findings_the_page_says_what_rhat_says(run, tmp_path):
    agree = np.random.Generator(np.random.Philox(key=1)).standard_normal((2, 135))
    differ = agree + np.array([[0.0], [9.0]])
    assert (
        "The chains agree: the largest R-hat shown is 1.0"
        in read(tmp_path, run, functions={"φ": agree}, parameters=None).text
    )
    text = read(tmp_path, run, functions={"φ": differ}, parameters=None).text
    assert "The chains do not agree yet" in text
    assert "those of run.diagnose()" in text


@pytest.mark.usefixtures("unpainted")
def test_any_text_is_shown_as_it_is_and_does_nothing(run, tmp_path):
    events = (Event(1.0, 0, 1, "raised", HOSTILE), Event(2.0, 1, 0, HOSTILE, "signal 9"))
    hostile = replace(run, events=events, timing=Timing(3.0, 1.0, 2.0, 0.5, 600), variables=lambda d: {HOSTILE: d})
    bad = found(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    findings = Findings((bad,), (bad.measurement,), {HOSTILE: HOSTILE})
    about = {
        "path": HOSTILE, "state": HOSTILE, "failure": HOSTILE, "created": HOSTILE, HOSTILE: [HOSTILE],
    }  # fmt: skip
    record = replace(run.trace.record, kernels=({"name": HOSTILE, HOSTILE: HOSTILE},))
    hostile = replace(hostile, trace=replace(run.trace, record=record))
    reader = read(tmp_path, hostile, title=HOSTILE, findings=findings, about=about, parameters=[f"{HOSTILE}[0]"])
    assert "script" not in reader.tags
    assert reader.tags.count("body") == 1
    assert reader.text.count("alert('x')") > 15


@pytest.mark.usefixtures("unpainted")
def test_faults_are_told_with_their_tracebacks_folded(run, tmp_path):
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1\nZeroDivisionError: division by zero'
    events = (*(Event(0.1 * k, 0, 1, "raised", trace) for k in range(60)), Event(9, 1, 2, "died", "signal 9"))
    timing = Timing(wall=10.0, gradients=12.0, waiting=36.0, updates=5.0, count=6000)
    reader = read(tmp_path, replace(run, events=events, timing=timing))
    assert "A worker raised an error 60 times, died once." in reader.text
    assert reader.tags.count("details") == 50
    assert "And 11 more." in reader.text
    assert trace in reader.parts
    assert "workers in gradients 12.0 s 25%" in reader.text
    assert "servers in updates 5.0 s 25%" in reader.text
    assert "a gradient took 2.0 ms" in reader.text
    assert "No worker failed." in read(tmp_path, replace(run, timing=timing)).text


@pytest.mark.usefixtures("unpainted")
def test_what_a_store_keeps_is_shown_where_it_belongs(run, tmp_path):
    about = {
        "path": "runs/my run", "state": "interrupted", "created": "2026-01-02T10:00:00+00:00", "failure": None,
        "job": {"model": {"function": "my.models:make", "arguments": {"rows": 1000, "kind": "small"}}},
        "sessions": [{"host": "node seven"}],
    }  # fmt: skip
    record = replace(
        run.trace.record,
        settings=replace(run.trace.record.settings, workers=7),
        model=replace(run.trace.record.model, type="Special", n_data=50, batch_size=2),
        kernels=({"name": "SGLD", "step_size": {"name": "Polynomial", "a": 0.1}},),
    )
    stored = replace(run, interrupted=True, trace=replace(run.trace, record=record))
    reader = read(tmp_path, stored, about=about)
    for words in (
        "2 servers × 7 workers", "Special, 5 parameters, 50 data in minibatches of 2",
        "SGLD with step size Polynomial (a 0.1)", "from my.models import make",
        'model = make(rows=1_000, kind="small")', "kernel = sg.SGLD(step_size=sg.schedules.Polynomial(a=0.1))",
        "The run was stopped before its end.", "runs/my run", "2026-01-02 10:00:00 UTC", "node seven",
        'trace = sg.load("runs/my run").trace', "stalegrad resume 'runs/my run'",
    ):  # fmt: skip
        assert words in reader.text
    assert "The run failed" not in reader.text
    failed = read(tmp_path, run, about={"failure": "the disk is full"}, findings=Findings())
    assert "The run failed: the disk is full." in failed.text
    assert "verdict serious" in failed.values("div", "class")


def one_chain():
    return sample(servers=1, workers=1, engine="inline")


def uneven():
    run = sample(steps=200, burn_in=0, thin=1)
    chains = tuple(chain.head(length) for chain, length in zip(run.trace.chains, (200, 60), strict=True))
    return sg.replay(replace(run.trace, chains=chains), model(), KERNEL)


EDGES = {
    "one chain, one worker": (one_chain, "compares the two halves of the chain"),
    "few draws": (lambda: sample(steps=3, burn_in=0, thin=1), "3 draws a chain: too few"),
    "one draw": (lambda: sample(steps=1, burn_in=0, thin=1), "1 draw a chain: too few"),
    "uneven": (uneven, "Averages are over the 60 draws that each of them has"),
    "no times": (
        lambda: sg.replay(Trace.constant_staleness(3, 60), model(), sg.SGLD(step_size=1e-3)),
        "The trace holds no times",
    ),
    "kernels that differ": (
        lambda: sample([sg.SGLD(step_size=1e-3), sg.SGLD(step_size=2e-3)]),
        "chain 0: SGLD with step size 0.001, temperature 1; chain 1: SGLD with step size 0.002",
    ),
    "threads": (lambda: sample(engine="threads"), "Where the time went"),
    "another architecture": (
        lambda: sample(sg.SGLD(step_size=1e-3), architecture=sg.Downpour(n_push=2)),
        "architecture=sg.Downpour(n_push=2), )",
    ),
}


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("case", EDGES)
def test_every_kind_of_run_has_a_page(case, tmp_path):
    make, words = EDGES[case]
    path = write_report(make(), tmp_path / "its own.html", parameters=["theta[1]"])
    assert path == tmp_path / "its own.html"
    reader = Reader(path.read_text(encoding="utf-8"))
    assert words in reader.text
    assert not re.search(r"\bnan\b|None|\binf\b", reader.text)


def test_repetitions_are_refused_before_anything_is_written(run, tmp_path):
    repeated = sg.replay(run.trace, model(), KERNEL, repeats=2)
    with pytest.raises(sg.ArgumentError, match="has 2 repetitions"):
        write_report(repeated, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_say_nothing_are_dashes_and_bad_ones_are_marked():
    constant = Summary("constant", 100, value=2.0, error=0.0, spread=0.0, low=2.0, high=2.0, ess=100.0)
    bad = Summary("bad", 100, value=1.0, error=0.1, spread=0.5, low=0.0, high=2.0, rhat=RHAT_LIMIT, ess=25.0)
    short = Summary("short", 3, "3 draws a chain: too few")
    assert mixing_table((constant, bad, short), "").rows == (
        ("constant", "–", "100", "100.0%", "–"),
        ("bad", "1.050 !", "25", "25.0%", "20.0%"),
        ("short", "–", "–", "–", "–"),
    )
    assert estimates_table((constant, bad, short), "").rows == (
        ("constant", "2 ± 0", "0.00", "2.00 to 2.00"),
        ("bad", "1.00 ± 0.10", "0.500", "0.00 to 2.00"),
        ("short", "3 draws a chain: too few", "", ""),
    )
