"""Sections, their collection, and the page on made-up numbers."""

import ast
import importlib
import json
import math
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


@pytest.fixture
def suite(benchmark_module):
    return benchmark_module("suite")


@pytest.fixture
def sections(benchmark_module):
    return benchmark_module("sections")


SCRIPTS = (
    "logistic_steps", "softmax", "jax_steps", "perceptron", "networks", "precision_logistic", "precision_lenet",
    "deep_peers", "effective", "variance_reduction", "server", "engine_cost", "two_cores", "time_speedup",
    "lenet_threads", "saturation", "async_efficiency", "scale", "memory", "startup",
)  # fmt: skip


HERE = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("script", sorted(path.stem for path in HERE.glob("*.py")))
def test_every_script_still_finds_what_it_imports(benchmark_module, script):
    """Imports at the top of a function too: they are written there to be late, not to be wrong."""
    benchmark_module(script)
    tree = ast.parse((HERE / f"{script}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stalegrad"):
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def made_up(results, name, tmp_path, holds=True):
    result = results.Result(f"Section {name}", "What  was\nmeasured.", {"batch_size": 50, "json": "x", "quick": True})
    result.table("Rates", ["", "a second"], [["ours", 1234.0], ["theirs | bare", None]])
    result.columns(f"{name}_columns", "Rates", "a second", {"stalegrad": 1234.0, "other": 12.0})
    result.curves(f"{name}_curves", "Errors", "seconds", "error", {"ours": ([1, 2], [3.0, 1.0])})
    result.bars = [results.Bar(f"{name} against other", 1234.0, 12.0, 5.0 if holds else 500.0)]
    result.finish(str(tmp_path / f"{name}.json"))
    found = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    return found | {"name": name, "seconds": 1.0}


def test_every_section_can_be_asked_for_a_quick_run_and_for_json(benchmark_module, sections):
    assert {section.script for section in sections.SECTIONS} == set(SCRIPTS)
    assert len({section.name for section in sections.SECTIONS}) == len(sections.SECTIONS)
    for section in sections.SECTIONS:
        arguments = benchmark_module(section.script).arguments
        quick, full = arguments([*section.words, "--quick", "--json", "x"]), arguments([*section.words])
        assert (quick.quick, quick.json, full.quick, full.json) == (True, "x", False, None)
        assert vars(quick) | {"quick": False, "json": None} != vars(full), "quick must be smaller"


def test_bars_of_all_sections_are_collected_and_failures_named(benchmark_module, suite, tmp_path):
    results = benchmark_module("results")
    failed = {"name": "c", "title": "Section c", "seconds": 1.0, "failure": "status 1: no"}
    found = [made_up(results, "a", tmp_path), made_up(results, "b", tmp_path, holds=False), failed]
    document = suite.collect(found, quick=False)
    assert [(bar["section"], bar["holds"]) for bar in document["bars"]] == [("a", True), ("b", False)]
    assert document["bars"][0]["ratio"] == pytest.approx(1234 / 12)
    assert document["failed"] == [{"section": "c", "failure": "status 1: no"}]
    json.dumps(document)


def test_the_page_says_what_the_numbers_say(benchmark_module, suite, tmp_path):
    results, page, pictures = (benchmark_module(name) for name in ("results", "page", "pictures"))
    failed = {"name": "c", "title": "Section c", "seconds": 1.0, "failure": "status 1: no"}
    found = [made_up(results, "a", tmp_path), made_up(results, "b", tmp_path, holds=False), failed]
    document = suite.collect(found, quick=False)
    drawn = pictures.draw_all(document, tmp_path / "pictures")
    text = page.text(document, drawn, "pictures")
    assert "1 of 2 bars hold." in text
    assert "1 section could not be measured" in text
    assert "could not be measured in this run (status 1: no)" in text
    assert "| ours | 1,234 |" in text
    assert "| theirs | bare | – |" not in text, "a cell must not end where a bar is in it"
    assert "What was measured." in text
    assert "quick run" not in text
    for name in drawn["a"]:
        assert (tmp_path / "pictures" / name).stat().st_size > 1000
        assert f"(pictures/{name})" in text
    assert "quick run" in page.text(suite.collect(found, quick=True), drawn, "pictures")
    nothing = page.text(suite.collect([failed], quick=False), {}, "pictures")
    assert "No bar was measured" in nothing


def test_pages_survive_figures_that_are_no_numbers(benchmark_module, suite, tmp_path):
    results, page = benchmark_module("results"), benchmark_module("page")
    section = made_up(results, "a", tmp_path)
    section["bars"] = [results.Bar("x", math.nan, 2.0, 5.0).line()]
    assert "0 of 1 bars hold." in page.text(suite.collect([section], quick=False), {}, "pictures")


def test_a_section_that_fails_is_told_and_does_not_stop_the_others(sections, monkeypatch, tmp_path):
    monkeypatch.setattr(sections, "HERE", tmp_path)
    (tmp_path / "bad.py").write_text("import sys; print('oh no', file=sys.stderr); sys.exit(3)")
    (tmp_path / "mute.py").write_text("")
    (tmp_path / "good.py").write_text(
        "import json, os, sys; at = sys.argv.index('--json') + 1\n"
        "json.dump({'title': 't', 'quick': '--quick' in sys.argv, 'threads': os.environ['OMP_NUM_THREADS']},"
        " open(sys.argv[at], 'w'))"
    )
    bad, mute, good = (
        sections.run(sections.Section(name, name, name.title()), tmp_path, quick=True)
        for name in ("bad", "mute", "good")
    )
    assert bad["failure"] == "status 3: oh no"
    assert mute["failure"] == "it wrote no results"
    assert (good["quick"], good["threads"]) == (True, "1")
    assert "failure" not in good


def test_scripts_import_no_heavy_library_before_they_are_run(benchmark_module):
    """A section chooses its cores before JAX and torch are there."""
    import subprocess

    program = "import sys; import " + ", ".join(SCRIPTS) + "; print([n for n in ('jax', 'torch') if n in sys.modules])"
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_asked_for_one_section_the_others_stay(benchmark_module, suite, monkeypatch, tmp_path):
    results, names = benchmark_module("results"), [section.name for section in suite.sections.SECTIONS]
    runs = []

    def run(section, folder, quick):
        runs.append(section.name)
        return made_up(results, section.name, tmp_path) | {"seconds": float(len(runs))}

    monkeypatch.setattr(suite.sections, "run", run)
    monkeypatch.setattr(suite.pictures, "draw_all", lambda document, folder: {})
    out, page = tmp_path / "out" / "results.json", tmp_path / "out" / "page.md"
    for only in ([], ["--only", names[1]]):
        monkeypatch.setattr(sys, "argv", ["suite", "--results", str(out), "--page", str(page), *only])
        assert suite.main() == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    assert runs == [*names, names[1]]
    assert [section["name"] for section in document["sections"]] == names
    assert [section["seconds"] for section in document["sections"]][:3] == [1.0, len(names) + 1.0, 3.0]
    assert len(document["bars"]) == len(names)
