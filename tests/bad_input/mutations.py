"""Bad input made of good: strategies that take a valid table, or the bytes of a valid file, and spoil it.

Spoiling what is valid finds more than noise does: most of the file is still right, so the mistake gets as far as it
can. Both are drawn.
"""

import copy
import json
import math

from hypothesis import strategies as st

SHORT_TEXT = st.one_of(
    st.sampled_from(
        ["", " ", "x", "threads", "inline", "SGLD", "no.such:Thing", "os:system", "stalegrad:x", ":", "a:b:c", "../..",
         "nan", "1", "-0", "\x00", "\x1b[2J\x1b]0;title\x07", "\u202e", "\ud800", "$x{", "$\\frac$", "[/red]", "[bold]",
         "é" * 300, "2026-01-01", "2026-13-41T25:00:00", "float16", "object", "int64", "%s", "{0}"]
    ),
    st.text(max_size=12),
)  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from(
        [0, 1, -1, 2, 3, 2**31, 2**32, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.0, -0.0, 0.5, 1.0,
         1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf]
    ),
    st.integers(-5, 50),
    st.floats(width=32),
)  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, SHORT_TEXT)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT_TEXT, inner, max_size=3), max_leaves=6
)


@st.composite
def spoiled(draw, table, protected=()):
    """A copy of a table, with one to three entries removed, renamed, moved, doubled or replaced.

    Entries whose path has a protected word stay: what would only make a valid run larger.
    """
    table = copy.deepcopy(table)
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(table) if not any(word in protected for word in place)]
        if not places:
            break
        place = draw(st.sampled_from(places))
        holder = _at(table, place[:-1])
        _spoil(draw, table, holder, place[-1])
    return table


def _spoil(draw, table, holder, key):
    kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "wrap", "add", "swap", "nest"]))
    if kind == "remove":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[draw(SHORT_TEXT)] = holder.pop(key)
    elif kind == "wrap":
        holder[key] = draw(st.sampled_from([[holder[key]], {"x": holder[key]}, [holder[key]] * 2]))
    elif kind == "add" and isinstance(holder, dict):
        holder[draw(SHORT_TEXT)] = draw(VALUES)
    elif kind == "swap":
        holder[key] = copy.deepcopy(_at(table, draw(st.sampled_from(list(_places(table))))))
    elif kind == "nest":
        for _ in range(draw(st.sampled_from([3, 40, 150]))):
            holder[key] = [holder[key]]
    else:
        holder[key] = draw(VALUES)


def _places(value, path=()):
    """The paths of all entries of a nested table."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from _places(entry, (*path, key))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


@st.composite
def damaged(draw, content):
    """The bytes of a file after an accident: cut off, overwritten, in another encoding, or something else."""
    kind = draw(st.sampled_from(["cut", "flip", "insert", "encoding", "noise", "brackets", "digits", "twice"]))
    at = draw(st.integers(0, len(content)))
    if kind == "cut":
        return content[:at]
    if kind == "flip" and content:
        at = min(at, len(content) - 1)
        return content[:at] + bytes([content[at] ^ draw(st.integers(1, 255))]) + content[at + 1 :]
    if kind == "insert":
        return content[:at] + draw(st.binary(min_size=1, max_size=8)) + content[at:]
    if kind == "encoding":
        text = content.decode("utf-8", "replace")
        return text.encode(draw(st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "latin-1"])), "replace")
    if kind == "brackets":
        return draw(st.sampled_from([b"[", b'{"a":', b"x = [", b"a."])) * 20_000
    if kind == "digits":
        return content[:at] + b"9" * 5_000 + content[at:]
    if kind == "twice":
        return content * 2
    return draw(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))


def json_files(table, protected=()):
    """The bytes of a JSON file that should have held this table."""
    content = json.dumps(table, indent=1).encode()
    of_table = spoiled(table, protected).map(lambda value: json.dumps(value).encode())
    return st.one_of(of_table, of_table, of_table, damaged(content), VALUES.map(lambda v: json.dumps(v).encode()))


def toml(table):
    """A table as TOML, as far as TOML has words for it: None is left out."""
    return "\n".join(f"{json.dumps(str(key))} = {_inline(value)}" for key, value in table.items() if value is not None)


def _inline(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = (f"{json.dumps(str(key))} = {_inline(entry)}" for key, entry in value.items() if entry is not None)
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(entry) for entry in value if entry is not None)}]"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    return json.dumps(value)


def toml_files(table):
    """The bytes of a TOML file that should have held this table."""
    of_table = spoiled(table).map(lambda value: toml(value).encode("utf-8", "surrogatepass"))
    return st.one_of(of_table, of_table, of_table, damaged(toml(table).encode()))
