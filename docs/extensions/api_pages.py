"""The reference: a page for every public name, made from what `import stalegrad` gives.

The names are those of ``stalegrad/__init__.pyi`` and, of its modules, those in their ``__all__``. An object has one
page, at its shortest name. References in docstrings find it whatever name they use: what is compared is the object.
"""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring

import stalegrad

FOLDER = "reference"
LONGEST_VALUE = 400  # characters of a constant that its page shows
GROUPS = {
    "Sample, and go on": ["sample", "resume", "load", "replay", "Run", "Warmup", "Watch", "find_step_size", "Estimate"],
    "Samplers": ["Harmonic", "SGLD", "SGHMC", "SGNHT", "PSGLD", "BAOAB", "UBU", "SGRLD", "Recipe", "Auxiliary"],
    "Who samples, who sends what": [
        "StaleGradients", "LowRank", "Shards", "VisitingShards", "Downpour", "Elastic", "WorkerNoise", "Consensus",
    ],
    "A cluster that you do not have": ["simulate", "Network", "Exponential", "LogNormal", "Trace"],
    "Errors": [
        "StalegradError", "ArgumentError", "DatasetError", "GradientError", "JobError", "MissingExtra", "RunFailed",
        "StoreError", "TraceError",
    ],
}  # fmt: skip
MODULES = [
    "potentials", "priors", "networks", "kernels", "schedules", "metrics", "engines", "simulation", "architectures",
    "estimates", "diagnostics", "theory", "planning", "observers", "store", "datasets", "testing", "sklearn",
]  # fmt: skip
SHOWN_BY = {"stalegrad.engines.ServerLoop": "stalegrad.engines.run_servers"}
"""What examples do not make themselves, and what makes it for them."""
CONTAINERS = ["analysis", "protocol", "runs"]
"""Modules that only hold other modules of the list, or what those are made of."""


def members(module: ModuleType) -> list[str]:
    """The public names of a module: its ``__all__``, or else what is defined in its folder or file."""
    if names := getattr(module, "__all__", None):
        return list(names)
    here = module.__name__
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith((here, "stalegrad._internal.jit"))
    ]


@cache
def documented() -> dict[str, Any]:
    """Every public name with its object, the shortest name of each object alone."""
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def add(name: str, value: Any) -> None:
        if not inspect.ismodule(value) and id(value) not in seen:
            seen.add(id(value))
            found[name] = value

    for name in stalegrad.__all__:
        add(f"stalegrad.{name}", getattr(stalegrad, name))
    for module_name in MODULES:
        module = importlib.import_module(f"stalegrad.{module_name}") if module_name == "sklearn" else None
        module = module or getattr(stalegrad, module_name)
        for name in members(module):
            add(f"stalegrad.{module_name}.{name}", getattr(module, name))
    return found


def directive(name: str, value: Any) -> str:
    """What autodoc makes a page from."""
    if inspect.isclass(value):
        added = (
            "\n   :exclude-members: set_fit_request, set_partial_fit_request, set_predict_request, set_score_request"
        )
        return f".. autoclass:: {name}\n   :members:{added if '.sklearn.' in name else ''}\n"
    if (callable(value) and hasattr(value, "__code__")) or inspect.isroutine(value):
        return f".. autofunction:: {name}\n"
    return f".. autodata:: {name}\n   :no-value:\n"


def has_example(value: Any) -> bool:
    """Whether its own docstring has a doctest."""
    return ">>>" in (value.__doc__ or "") if inspect.isclass(value) or inspect.isroutine(value) else False


def function_of(member: Any) -> Any:
    """The function behind a method of any kind, or a property."""
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


@cache
def annotations() -> dict[str, str]:
    """What each public function, class and method takes and gives, as text."""
    found = {}
    for name, value in documented().items():
        members = vars(value).items() if inspect.isclass(value) else ()
        callables = {name: value} | {f"{name}.{key}": of for key, of in members if not key.startswith("_")}
        for place, what in callables.items():
            try:
                found[place] = str(inspect.signature(function_of(what)))
            except (TypeError, ValueError):
                continue
    return found


def users(name: str) -> list[str]:
    """Public names that give or take an object of this class; those with an example of their own first."""
    word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b")
    found = [place for place, signature in annotations().items() if place != name and word.search(signature)]
    ranked = sorted(found, key=lambda place: (not has_example(called(place)), "->" not in place, len(place)))
    return [place for place in ranked if not place.startswith(f"{name}.")][:6]


def called(name: str) -> Any:
    """The object of a name: the public one, where a module has the name of its function."""
    return documented()[name] if name in documented() else imported(name)


def fields(value: Any) -> str:
    """What the attributes of a class are, as text."""
    return " ".join(map(str, getattr(value, "__annotations__", {}).values()))


def givers(name: str, *, by_way_of: int = 1) -> list[str]:
    """Functions and methods with an example that return an object of this class, or one that has such an attribute."""
    word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b")
    found = [place for place, signature in annotations().items() if word.search(signature.partition("->")[2])]
    own = [place for place in found if not place.startswith(name) and has_example(called(place))]
    if own or not by_way_of:
        return sorted(own, key=len)
    owners = [other for other, value in documented().items() if other != name and word.search(fields(value))]
    return [place for owner in owners for place in givers(owner, by_way_of=by_way_of - 1)]


def example(value: Any) -> list[str]:
    """The lines of the first doctest of a docstring."""
    found = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    lines = []
    for each in found:
        prompts = [">>> ", *["... "] * each.source.count("\n")]
        lines += [f"{prompt}{line}" for prompt, line in zip(prompts, each.source.splitlines(), strict=False)]
        lines += each.want.splitlines()
    return lines


def example_from_elsewhere(name: str, value: Any) -> str:
    """For what has no doctest of its own: that of a function that gives one; of a constant, its value."""
    if has_example(value) or (inspect.isclass(value) and any(map(has_example, map(function_of, vars(value).values())))):
        return ""
    if inspect.isclass(value):
        places = givers(name)
        lines = example(called(places[0])) if places else []
        title = f"An example of :py:obj:`~{places[0]}`, which gives one" if places else ""
    elif callable(value) and hasattr(value, "__code__"):
        return ""
    else:
        shown = repr(value)
        cut = shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]} …"
        title, lines = "Its value", [f">>> {name.replace('stalegrad.', 'sg.', 1)}", cut]
    block = "".join(f"   {line}\n" for line in lines)
    return f".. rubric:: {title}\n\n.. code-block:: pycon\n\n{block}\n" if lines else ""


def page(name: str, value: Any) -> str:
    """The source of a name's page."""
    title = name.removeprefix("stalegrad.")
    text = f"{title}\n{'=' * len(title)}\n\n{directive(name, value)}\n{example_from_elsewhere(name, value)}"
    if inspect.isclass(value) and (places := users(name)):
        text += ".. rubric:: Given or taken by\n\n" + ", ".join(f":py:obj:`~{place}`" for place in places) + "\n\n"
    return text + f".. minigallery:: {SHOWN_BY.get(name, name)}\n   :add-heading: In the gallery\n"


def summary(value: Any) -> str:
    """The first sentence or line of what is said of an object."""
    text = (inspect.getdoc(value) or "").strip() if inspect.isclass(value) or inspect.isroutine(value) else ""
    first = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)`])[.:] ", first)[0].rstrip(".:")
    return sentence.replace("|", r"\|") or type(value).__name__


def table(names: dict[str, Any]) -> str:
    """Names with the first line of what is said of each, and their pages below."""
    rows = "".join(f"   * - :py:obj:`~{name}`\n     - {summary(value)}\n" for name, value in names.items())
    pages = "\n".join(f"   {name.rpartition('.')[2]} <{name}>" for name in names)
    return f".. list-table::\n   :widths: 30 70\n\n{rows}\n.. toctree::\n   :hidden:\n\n{pages}\n"


def module_page(module_name: str, names: dict[str, Any]) -> str:
    """The page of a module: its docstring, and its names."""
    title = f"stalegrad.{module_name}"
    there = f"stalegrad.{module_name}" if module_name == "sklearn" else getattr(stalegrad, module_name).__name__
    head = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {there}\n   :no-members:\n\n"
    return head + (table(names) if names else "")


def index(names: dict[str, Any]) -> str:
    """The first page of the reference."""
    lines = ["Reference", "=========", "", "``import stalegrad as sg`` gives these names. Each is imported when it is",
             "first used, so that importing the package takes no time.", ""]  # fmt: skip
    placed = {name for group in GROUPS.values() for name in group}
    top = {name.removeprefix("stalegrad.") for name in names if name.count(".") == 1}
    groups = dict(GROUPS) | ({"More": sorted(top - placed)} if top - placed else {})
    for group, group_names in groups.items():
        listed = [f"stalegrad.{name}" for name in group_names if name in top]
        lines += [group, "-" * len(group), "", table({name: names[name] for name in listed}), ""]
    lines += ["Modules", "-------", "", ".. toctree::", "   :maxdepth: 1", ""]
    lines += [f"   {module} <stalegrad.{module}>" for module in [*MODULES, *CONTAINERS]]
    return "\n".join(lines) + "\n"


def sources() -> Iterator[tuple[str, str]]:
    """(file name, text) of all pages."""
    names = documented()
    yield "index.rst", index(names)
    for name, value in names.items():
        yield f"{name}.rst", page(name, value)
    for module in [*MODULES, *CONTAINERS]:
        prefix = f"stalegrad.{module}."
        own = {name: value for name, value in names.items() if name.startswith(prefix)}
        yield f"stalegrad.{module}.rst", module_page(module, own)


def write(app: Sphinx) -> None:
    """Write the pages; those that are as they were keep their time, so that they are not built again."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    texts = dict(sources())
    for path in folder.glob("*.rst"):
        if path.name not in texts:
            path.unlink()
    for path in (Path(app.outdir) / FOLDER).glob("*.html"):
        if f"{path.stem}.rst" not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def note_source(app: Sphinx, doctree: nodes.document) -> None:
    """A page is to be built again when the file that its object is defined in has changed."""
    value = documented().get(app.env.docname.removeprefix(f"{FOLDER}/"))
    if inspect.isclass(value) or inspect.isroutine(value):
        app.env.note_dependency(inspect.getsourcefile(inspect.unwrap(value)) or "")


# ------------------------------------------------------------------------------------------------------ references


def imported(name: str) -> Any:
    """The object of a dotted name, or None. A function may have the name of the module that it is in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
            for attribute in parts[length:]:
                value = getattr(value, attribute)
        except (ImportError, AttributeError):
            continue
        return value
    return None


def meant(target: str, module: str, klass: str | None) -> Iterator[Any]:
    """What a target may stand for, from near to far."""
    places = [f"{module}.{klass}", getattr(documented().get(f"{module}.{klass}"), "__module__", "")] if klass else []
    for place in [*places, module, "stalegrad", ""]:
        found = imported(f"{place}.{target}".strip("."))
        if found is not None:
            yield found
    first, _, rest = target.partition(".")
    for name in documented():
        if name.rpartition(".")[2] == first and (found := imported(f"{name}.{rest}".strip("."))) is not None:
            yield found


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Node | None:
    """A reference by another name than that of the page; what has no page is shown without a link.

    Only a name that does not exist is left to Sphinx, which warns of it.
    """
    if node.get("refdomain") != "py":
        return None
    target = re.sub(r"^\w+\[", "", node["reftarget"]).removeprefix("~")  # of an alias such as tuple[Finding, …]
    module = node.get("py:module") or "stalegrad"
    pages = {id(value): name for name, value in documented().items()}
    domain = env.get_domain("py")
    found = list(meant(target, module, node.get("py:class")))
    for value in found:
        name = pages.get(id(value)) or (value.__name__ if inspect.ismodule(value) else None)
        if name is None and (owner := owner_of(value, pages)):
            name = owner
        for kind in ("obj", "mod"):
            if name and (link := domain.resolve_xref(env, node["refdoc"], app.builder, kind, name, node, content)):
                return link
    return content if found or elsewhere(target) else None


def owner_of(value: Any, pages: dict[int, str]) -> str | None:
    """The name of a method or property, by the page of its class."""
    function = value.fget if isinstance(value, property) else value
    qualified = getattr(function, "__qualname__", "")
    if "." not in qualified:
        return None
    owner = imported(f"{function.__module__}.{qualified.rpartition('.')[0]}")
    return f"{pages[id(owner)]}.{qualified.rpartition('.')[2]}" if id(owner) in pages else None


def elsewhere(target: str) -> bool:
    """Whether it is a name of another package, of typing, or of a type variable in a signature."""
    first = target.partition(".")[0]
    return first != "stalegrad" and (imported(first) is not None or "." not in target)


# ------------------------------------------------------------------------------------------------------ docstrings


def as_list_table(rows: list[str]) -> list[str]:
    """A table that is written as in Markdown, in reStructuredText."""
    cells = [[cell.strip() for cell in row.strip().strip("|").split(" | ")] for row in (rows[0], *rows[2:])]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in cells:
        lines += [f"   {'* -' if place == 0 else '  -'} {cell}" for place, cell in enumerate(row)]
    return [*lines, ""]


def tables(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Replace all tables of a docstring."""
    start = 0
    while start < len(lines) - 1:
        if lines[start].startswith("| ") and lines[start + 1].startswith("|--"):
            end = next((row for row in range(start, len(lines)) if not lines[row].startswith("|")), len(lines))
            lines[start:end] = as_list_table(lines[start:end])
        start += 1


def escape(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Bars in prose are conditional probabilities, not substitutions; "B." is a symbol, not the second of a list."""
    in_formula = False
    for number, line in enumerate(lines):
        lines[number] = line = re.sub(r"^(\s*(?::\w+ [\w*\\]+:|\*)? *)([^\W\d_])\.(?= |$)", r"\1\\\2.", line)
        in_formula = line.lstrip().startswith(".. math::") or (in_formula and bool(line.strip()))
        if "|" in line and not in_formula and not line.lstrip().startswith((">>>", "...", "+", "| ")):
            parts = re.split(r"(``.*?``|:\w+:`[^`]*`)", line)
            lines[number] = "".join(part if odd % 2 else part.replace("|", r"\|") for odd, part in enumerate(parts))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write pages before Sphinx looks for them; help where it finds no reference."""
    app.connect("builder-inited", write, priority=100)
    app.connect("doctree-read", note_source)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", tables, priority=100)
    app.connect("autodoc-process-docstring", escape, priority=900)
    # What stands before a colon in the docstring of a property is no type here.
    GoogleDocstring._parse_attribute_docstring = lambda self: self._dedent(self._consume_to_end())  # type: ignore[method-assign]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
