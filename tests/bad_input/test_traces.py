"""Traces in files: loaded, and then replayed, or refused."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stalegrad as sg

from .conftest import KERNEL, cases, taken_or_refused
from .mutations import damaged, json_files


@pytest.fixture(scope="session")
def parts(run, tmp_path_factory):
    """The header and the arrays of a good file, and its bytes."""
    path = run.trace.save(tmp_path_factory.mktemp("traces") / "good.npz")
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    return header, arrays, path.read_bytes()


@st.composite
def strange_arrays(draw, arrays):
    """The arrays of a file, some of them gone, of another type, longer, shorter, or with strange numbers in them."""
    arrays = dict(arrays)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(arrays)))
        array = arrays[name]
        kind = draw(st.sampled_from(["drop", "type", "cut", "shape", "value", "empty"]))
        if kind == "drop" and len(arrays) > 1:
            del arrays[name]
        elif kind == "type" and array.dtype.kind != "U":  # text goes into no number
            dtype = draw(st.sampled_from(["bool", "int8", "uint64", "float16", "U3", "complex64"]))
            with np.errstate(all="ignore"):  # what does not fit is as strange as the rest
                arrays[name] = array.astype(dtype)
        elif kind == "cut":
            arrays[name] = array[: draw(st.integers(0, max(0, len(array) - 1)))] if array.ndim else array
        elif kind == "shape":
            arrays[name] = draw(st.sampled_from([array[None], array.reshape(-1, 1), np.array(1.0)]))
        elif kind == "empty":
            arrays[name] = array[:0] if array.ndim else array
        elif array.size and array.dtype.kind in "iuf":
            array = array.copy()
            extreme = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
            choices = [extreme.max, extreme.min, 0, 1] + ([np.nan, np.inf] if array.dtype.kind == "f" else [])
            array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(choices))
            arrays[name] = array
    return arrays


@cases(0.2)
@given(data=st.data())
def test_traces(data, parts, model, tmp_path_factory):
    header, arrays, content = parts
    path = tmp_path_factory.getbasetemp() / "trace.npz"
    kind = data.draw(st.sampled_from(["header", "arrays", "bytes"]))
    if kind == "bytes":
        path.write_bytes(data.draw(damaged(content)))
    else:
        text = data.draw(json_files(header)) if kind == "header" else json.dumps(header).encode()
        given_arrays = data.draw(strange_arrays(arrays)) if kind == "arrays" else arrays
        buffer = io.BytesIO()
        np.savez(buffer, header=np.frombuffer(text, np.uint8), **given_arrays)
        path.write_bytes(buffer.getvalue())
    trace = None
    with taken_or_refused(path):
        trace = sg.Trace.load(path)
    if trace is not None and sum(map(len, trace.chains)) < 1000:
        with taken_or_refused():
            sg.replay(trace, model, KERNEL)
            trace.cost()
