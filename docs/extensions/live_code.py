"""Code on pages is run when they are built, and what it prints and draws is shown below it.

All ``python`` blocks of a page run in one process, one after the other, in an empty folder; lines after ``$`` in
``console`` blocks run there, too, in a shell. A block with ``>>>`` must print what it says. What a page needs and does
not show stands in a comment before it, ``<!-- run: … -->``. A block that cannot run here has its reason before it,
``<!-- not run: … -->``. A block with a caption is a file of that name in the folder, for what follows. Job files and
manifests (``toml``, ``yaml``) are read, shell scripts are parsed.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

logger = logging.getLogger(__name__)

RUNNER = Path(__file__).with_name("run_blocks.py")
FIGURES = "_generated/figures"
LIMIT = 900  # seconds of a page
GENERATED = ("gallery/", "reference/")


def comment(node: nodes.Node, word: str) -> str | None:
    """What an HTML comment ``<!-- word: … -->`` says, if this is one."""
    text = node.astext().strip() if isinstance(node, nodes.raw | nodes.comment) else ""
    text = text.removeprefix("<!--").removesuffix("-->").strip()
    return dedent(text.removeprefix(f"{word}:").strip("\n")).strip() if text.startswith(f"{word}:") else None


def blocks(doctree: nodes.document) -> list[tuple[nodes.Element, dict[str, Any]]]:
    """What is to be run on a page, in order: its node and what the runner is told."""
    found: list[tuple[nodes.Element, dict[str, Any]]] = []
    excused = False
    for node in doctree.findall(lambda node: isinstance(node, nodes.raw | nodes.comment | nodes.literal_block)):
        if (hidden := comment(node, "run")) is not None:
            found.append((node, {"kind": "python", "code": hidden, "line": node.line or 0}))
        elif comment(node, "not run") is not None:
            excused = True
        elif isinstance(node, nodes.literal_block):
            kind = node.get("language", "")
            caption = node.parent.next_node(nodes.caption) if isinstance(node.parent, nodes.container) else None
            if caption is not None:
                found.append((node, {"kind": "file", "code": node.astext(), "line": 0, "name": caption.astext()}))
            elif not excused and kind in {"python", "console"} and (kind == "python" or "$ " in node.astext()):
                found.append((node, {"kind": kind, "code": node.astext(), "line": node.line or 0}))
            excused = False
    return found


def read_only(doctree: nodes.document) -> int:
    """Read what is not run: how many blocks were."""
    count = 0
    for node in doctree.findall(nodes.literal_block):
        kind, text = node.get("language", ""), node.astext()
        try:
            if kind == "toml":
                tomllib.loads(text)
            elif kind == "yaml":
                list(yaml.safe_load_all(text))
            elif kind in {"bash", "sh"}:
                subprocess.run(["bash", "-n"], input=text, text=True, check=True, capture_output=True)
            else:
                continue
        except (tomllib.TOMLDecodeError, yaml.YAMLError, subprocess.CalledProcessError) as error:
            logger.warning("a block of %s cannot be read: %s", kind, error, location=node)
        count += 1
    return count


def execute(app: Sphinx, doctree: nodes.document) -> None:
    """Run a page's blocks and put what they give below each."""
    name = app.env.docname
    if name.startswith(GENERATED):
        return
    counts = {"run": 0, "read": read_only(doctree), "figures": 0}
    todo = blocks(doctree) if app.config.live_code_run else []
    if todo:
        figures = Path(app.srcdir) / FIGURES / name.replace("/", "-")
        figures.parent.mkdir(parents=True, exist_ok=True)
        outcome = run([told for _, told in todo], figures)
        for (node, _), result in zip(todo, outcome["results"], strict=False):
            if result["error"]:
                logger.warning("this block has failed:\n%s", result["error"], location=node)
            depth = "../" * name.count("/")
            counts["figures"] += len(result["figures"])
            if isinstance(node, nodes.literal_block):
                put(node, result, depth)
                counts["run"] += 1
            else:
                node.parent.remove(node)
        if len(outcome["results"]) < len(todo):
            logger.warning("the blocks of this page were not all run: %s", outcome["died"], location=name)
    for node in list(doctree.findall(lambda node: any(comment(node, word) is not None for word in ("run", "not run")))):
        node.parent.remove(node)
    recorded(app.env)[name] = counts


def run(told: list[dict[str, Any]], figures: Path) -> dict[str, Any]:
    """The results of the blocks, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="stalegrad-docs-") as folder:
        answer = Path(folder) / ".answer.json"
        order = json.dumps({"blocks": told, "figures": str(figures), "answer": str(answer)})
        try:
            done = subprocess.run(
                [sys.executable, str(RUNNER)], input=order, text=True, capture_output=True, cwd=folder, timeout=LIMIT
            )
            died = f"status {done.returncode}\n{done.stderr[-3000:]}"
        except subprocess.TimeoutExpired:
            died = f"more than {LIMIT} seconds"
        lines = answer.read_text().splitlines() if answer.exists() else []
    return {"results": [json.loads(line) for line in lines], "died": died}


def put(node: nodes.Element, result: dict[str, Any], depth: str) -> None:
    """Below a block: what it has printed, and its pictures."""
    place = node.parent.index(node) + 1
    shown: list[nodes.Node] = []
    if result["printed"].strip():
        text = result["printed"].rstrip()
        shown.append(nodes.literal_block(text, text, language="none", classes=["printed"]))
    shown += [
        nodes.image(uri=f"{depth}{FIGURES}/{figure['file']}", alt=figure["title"], classes=["made-here"])
        for figure in result["figures"]
    ]
    node.parent[place:place] = shown


def recorded(env: BuildEnvironment) -> dict[str, Any]:
    """What was run, by page; kept with Sphinx's environment."""
    if not hasattr(env, "live_code"):
        env.live_code = {}  # type: ignore[attr-defined]
    found: dict[str, Any] = env.live_code  # type: ignore[attr-defined]
    return found


def merge(app: Sphinx, env: BuildEnvironment, names: list[str], other: BuildEnvironment) -> None:
    """Take over what a parallel process has run."""
    recorded(env).update({name: recorded(other)[name] for name in names if name in recorded(other)})


def write_counts(app: Sphinx, error: Exception | None) -> None:
    """Leave the counts where the check of the site finds them."""
    if error is None:
        counts = {name: found for name, found in recorded(app.env).items() if name in app.env.found_docs}
        (Path(app.outdir) / ".executed.json").write_text(json.dumps(counts, indent=1, sort_keys=True))


def setup(app: Sphinx) -> dict[str, bool]:
    """Before Sphinx collects the pictures of a page."""
    app.add_config_value("live_code_run", True, "env", bool)
    app.connect("doctree-read", execute, priority=100)
    app.connect("env-merge-info", merge)
    app.connect("build-finished", write_counts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
