"""Build wheel and sdist, and see that they are what users need. `make dist` runs it.

1. The sdist is built from the source, the wheel from the sdist.
2. Metadata (twine, strict), contents of the wheel (check-wheel-contents), and files that the sdist must have.
3. The wheel is installed into an empty environment, alone and with each extra alone, and smoke.py does something with
   each that needs it.
4. mypy and pyright, in the environment of the wheel, find its types: in a program whose types are known, in one with a
   mistake, which they must find, and in the examples.
"""

import argparse
import ast
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("distribution_smoke.py")
DEVELOPMENT = {"bench", "browser", "dist", "docs", "test"}  # extras that are for this repository, not for users
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "src/stalegrad/py.typed",
            "src/stalegrad/__init__.pyi", "tests/conftest.py", "examples/own_kernel.py", "docs/conf.py")  # fmt: skip
RIGHT = """import stalegrad as sg
run: sg.Run = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), steps=10)
kernel: sg.SGHMC = sg.SGHMC(step_size=1e-3, friction=10.0)
error: type[Exception] = sg.ArgumentError
"""
WRONG = """import stalegrad as sg
steps: str = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), steps="ten")
"""
EXAMPLES = ("own_kernel.py", "own_potential.py", "own_architecture.py", "own_engine.py", "simulated_cluster.py",
            "chains_or_workers.py", "free_staleness.py", "trust_a_run.py")  # fmt: skip


def run(*command, **options):
    """A command that must succeed, and what it printed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name):
    """A program beside this Python."""
    return Path(sys.executable).with_name(name)


def build():
    """The sdist and, from it, the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,), (sdist,) = list(DIST.glob("*.whl")), list(DIST.glob("*.tar.gz"))
    return wheel, sdist


def check_files(wheel, sdist):
    """Metadata and contents."""
    run(tool("twine"), "check", "--strict", wheel, sdist)
    run(tool("check-wheel-contents"), wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if missing := [name for name in IN_SDIST if name not in names]:
        sys.exit(f"the sdist lacks {missing}")
    if stray := [name for name in names if name.startswith(("docs/_build", ".venv")) or "__pycache__" in name]:
        sys.exit(f"the sdist has {stray[:5]}")


def places():
    """Where pip has been told to look for packages, such as torch's CPU build; uv does not read pip's settings."""
    options = []
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        key, _, value = line.partition("=")
        if (name := key.rpartition(".")[2]) in {"find-links", "index-url"}:
            options += [part for place in ast.literal_eval(value).split() for part in (f"--{name}", place)]
    return options


class Environment:
    """An environment with the wheel and one extra in it, and nothing else."""

    def __init__(self, folder, wheel, extra, *more):
        self.folder, self.python = folder, folder / "bin" / "python"
        run(tool("uv"), "venv", "--quiet", "--python", sys.executable, folder)
        asked = f"stalegrad[{extra}] @ {wheel.as_uri()}" if extra else f"stalegrad @ {wheel.as_uri()}"
        run(tool("uv"), "pip", "install", "--quiet", "--python", self.python, *places(),
            "--constraint", ROOT / "constraints.txt", asked, *more)  # fmt: skip

    def megabytes(self):
        """What it takes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6


def smoke(extra, wheel, root):
    """Install and try one extra; seconds of each.

    All environments have the same place, one after the other, so that what one has compiled is there for the next.
    """
    started = time.monotonic()
    folder = root / "environment"
    shutil.rmtree(folder, ignore_errors=True)
    environment = Environment(folder, wheel, extra)
    installed, megabytes = time.monotonic(), environment.megabytes()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STALEGRAD"))}
    work = folder / "work"
    work.mkdir()
    (work / "token").write_text(secrets.token_hex(32))
    (work / "token").chmod(0o600)
    clean |= {"RAY_AUTH_TOKEN_PATH": str(work / "token"), "NUMBA_CACHE_DIR": str(root / "compiled")}
    # -P: the folder of the script has folders of tests that are called as packages are.
    said = run(environment.python, "-P", SMOKE, extra or "none", cwd=work, env=clean)
    print(f"  {extra or '(none)':12} installed in {installed - started:4.0f} s, {megabytes:5,.0f} MB, "
          f"{said.strip()} ({time.monotonic() - installed:.0f} s)", flush=True)  # fmt: skip


def check_types(wheel, folder):
    """What type checkers see of the wheel."""
    environment = Environment(folder, wheel, "")
    for name, text in {"right.py": RIGHT, "wrong.py": WRONG}.items():
        (folder / name).write_text(text)
    checkers = {
        "mypy": [tool("mypy"), "--strict", "--python-executable", environment.python, "--no-incremental"],
        "pyright": [tool("pyright"), "--pythonpath", environment.python],
    }
    for name, command in checkers.items():
        run(*command, "right.py", cwd=folder)
        wrong = [str(part) for part in [*command, "wrong.py"]]
        done = subprocess.run(wrong, capture_output=True, text=True, cwd=folder)
        if done.returncode == 0 or done.stdout.count("error:") < 2:
            sys.exit(f"{name} does not see the types of the wheel:\n{done.stdout}{done.stderr}")
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, folder)
    run(tool("mypy"), "--python-executable", environment.python, "--no-incremental", *EXAMPLES, cwd=folder)
    run(tool("pyright"), "--pythonpath", environment.python, *EXAMPLES, cwd=folder)
    print(f"  types        mypy --strict and pyright see them; {len(EXAMPLES)} examples pass", flush=True)


def main():
    """Everything, or some extras."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="extras to try, '' for none of them; all unless given")
    only = parser.parse_args().only
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wheel, sdist = build()
    check_files(wheel, sdist)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB, {sdist.name}: {sdist.stat().st_size / 1e3:.0f} kB; "
          "metadata and contents are right")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="stalegrad-dist-") as folder:
        for extra in ["", *sorted(extras.keys() - DEVELOPMENT)]:
            if only is None or extra in only:
                smoke(extra, wheel, Path(folder))
        check_types(wheel, Path(folder) / "types")


if __name__ == "__main__":
    main()
