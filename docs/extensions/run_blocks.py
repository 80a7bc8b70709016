"""The process that runs the blocks of one page: an order on standard input, a line of JSON for each block in a file."""

import contextlib
import doctest
import io
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def python(code: str, names: dict[str, Any], where: str) -> str:
    """What a block prints. One with prompts must print what it says, and is shown as it is."""
    if ">>>" in code:
        test = doctest.DocTestParser().get_doctest(code + "\n", names, where, where, 0)
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        report = io.StringIO()
        runner.run(test, out=report.write, clear_globs=False)
        names.update(test.globs)
        if runner.failures:
            raise AssertionError(report.getvalue())
        return ""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)
    return printed.getvalue()


def console(code: str) -> str:
    """What the commands of a block print, each after its prompt."""
    shown = ""
    for line in code.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(["bash", "-c", line[2:]], capture_output=True, text=True)
            shown += done.stdout
            if done.returncode:
                raise AssertionError(f"{line}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return shown


def drawn(names: dict[str, Any], shown: list[Any]) -> list[Any]:
    """The pictures that are open, and those that have a name, which have not been shown before."""
    if "matplotlib.figure" not in sys.modules:
        return []
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    found = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    for value in names.values():
        if isinstance(value, Figure) and not any(value is other for other in (*found, *shown)):
            found.append(value)
    return found


def saved(pictures: list[Any], figures: Path, block: int) -> list[dict[str, str]]:
    """Pictures as files."""
    found = []
    for number, figure in enumerate(pictures, start=1):
        path = figures.with_name(f"{figures.name}-{block}-{number}.png")
        figure.savefig(path, dpi=140, bbox_inches="tight")
        titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
        found.append({"file": path.name, "title": "; ".join(titles) or "What the code above draws."})
    return found


def main() -> None:
    """Run all blocks; after one that fails, the others as far as they go."""
    order = json.load(sys.stdin)
    os.environ.update(MPLBACKEND="Agg", TERM="dumb", COLUMNS="110", PYTHONWARNINGS="default")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, Any] = {"__name__": "page"}
    shown: list[Any] = []
    sys.path.insert(0, "")
    with Path(order["answer"]).open("w") as answer:
        for number, block in enumerate(order["blocks"]):
            printed, error, pictures = "", "", []
            try:
                if block["kind"] == "python":
                    printed = python(block["code"], names, f"line {block['line']}")
                elif block["kind"] == "file":
                    Path(block["name"]).write_text(block["code"] + "\n")
                else:
                    printed = console(block["code"])
                new = drawn(names, shown)
                shown += new
                pictures = saved(new, Path(order["figures"]), number)
            except BaseException:
                error = traceback.format_exc()
            answer.write(json.dumps({"printed": printed, "error": error, "figures": pictures}) + "\n")
            answer.flush()


if __name__ == "__main__":
    main()
