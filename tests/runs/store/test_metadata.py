"""Descriptions of arrays that this package does not write: refused by all readers, before anything is made of them."""

import json
import pickle
import shutil

import numcodecs
import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.store import arrays
from stalegrad.runs.store.metadata import CODECS, TYPES, described
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.002)
ARRAYS = ("draws", "stats", "trace")
READERS = {
    "load": lambda store: sg.load(store).trace.chains[0].steps + len(np.asarray(sg.load(store).draws)),
    "resume": lambda store: sg.resume(store, small_model(), KERNEL, steps=90, engine="inline", progress=False),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "run"
    sg.sample(small_model(), KERNEL, steps=60, engine="inline", progress=False, store=folder)
    return folder


@pytest.fixture
def store(written, tmp_path):
    return shutil.copytree(written, tmp_path / "run")


def edited(about, **changes):
    return {**about, **changes}


def with_codec(about, place, codec):
    codecs = [dict(each) for each in about["codecs"]]
    codecs[place:place] = [codec]
    return edited(about, codecs=codecs)


def with_setting(about, name, **settings):
    codecs = [
        edited(each, configuration=each.get("configuration", {}) | settings) if each["name"] == name else each
        for each in about["codecs"]
    ]
    return edited(about, codecs=codecs)


HOSTILE = {
    "another codec": lambda about: with_codec(about, 1, {"name": "gzip", "configuration": {"level": 1}}),
    "a codec of numcodecs": lambda about: with_codec(about, 0, {"name": "numcodecs.pickle", "configuration": {}}),
    "a codec without a name": lambda about: with_codec(about, 1, {"configuration": {}}),
    "a codec that is no table": lambda about: with_codec(about, 1, "vlen-bytes"),
    "a codec with an extension": lambda about: edited(
        about, codecs=[about["codecs"][0] | {"must_understand": False}, *about["codecs"][1:]]
    ),
    "a codec twice": lambda about: with_codec(about, 3, {"name": "crc32c"}),
    "no checksum": lambda about: edited(about, codecs=about["codecs"][:-1]),
    "no codecs": lambda about: edited(about, codecs=[]),
    "another compressor": lambda about: with_setting(about, "blosc", cname="lz4"),
    "an unknown setting": lambda about: with_setting(about, "blosc", program="x"),
    "Python objects": lambda about: edited(about, data_type="object"),
    "strings": lambda about: edited(about, data_type="string"),
    "a structured type": lambda about: edited(about, data_type={"name": "structured", "configuration": {}}),
    "an extension": lambda about: edited(about, extra={"name": "x", "must_understand": True}),
    "an extension that may be ignored": lambda about: edited(about, extra={"name": "x", "must_understand": False}),
    "a storage transformer": lambda about: edited(about, storage_transformers=[{"name": "x"}]),
    "other names of chunks": lambda about: edited(about, chunk_key_encoding={"name": "v2"}),
    "another grid": lambda about: edited(about, chunk_grid={"name": "rectilinear", "configuration": {}}),
    "no shape": lambda about: {key: value for key, value in about.items() if key != "shape"},
    "a negative shape": lambda about: edited(about, shape=[-1, 3]),
    "chunks of no rows": lambda about: edited(
        about, chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 3]}}
    ),
    "chunks that no memory holds": lambda about: edited(
        about, chunk_grid={"name": "regular", "configuration": {"chunk_shape": [10**9, 3]}}
    ),
    "a codec without its settings": lambda about: with_codec(
        edited(about, codecs=[codec for codec in about["codecs"] if codec["name"] != "blosc"]), 1, {"name": "blosc"}
    ),
    "axes that it has not": lambda about: with_codec(about, 0, {"name": "transpose", "configuration": {"order": [0]}}),
    "another format": lambda about: edited(about, zarr_format=2),
    "a group": lambda about: edited(about, node_type="group"),
    "a list": lambda about: [about],
}


@pytest.fixture
def no_codec(monkeypatch):
    """Whoever makes a codec fails the test."""

    def refuse(*arguments, **options):
        pytest.fail(f"a codec was made: {arguments}")

    monkeypatch.setattr(numcodecs.blosc, "Blosc", refuse)
    monkeypatch.setattr(numcodecs, "get_codec", refuse)
    monkeypatch.setattr(numcodecs.registry, "get_codec", refuse)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_is_never_written_is_refused_before_a_codec_is_made(store, no_codec, hostile):
    path = store / "chain-0" / "draws" / "zarr.json"
    path.write_text(json.dumps(HOSTILE[hostile](json.loads(path.read_text()))))
    with pytest.raises(sg.StoreError, match=r"zarr\.json .*it could run programs") as caught:
        described(path.parent)
    assert str(path) in str(caught.value)
    for reader in (arrays.StoredArray, arrays.GrowingArray):
        with pytest.raises(sg.StoreError, match=r"zarr\.json"):
            reader(path.parent, 0)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ARRAYS)
def test_every_reader_looks_at_every_array(store, name, reader):
    path = store / "chain-0" / name / "zarr.json"
    path.write_text(json.dumps(HOSTILE["a codec of numcodecs"](json.loads(path.read_text()))))
    with pytest.raises(sg.StoreError, match=r"zarr\.json has the codec"):
        READERS[reader](store)


class Planted:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ARRAYS)
def test_objects_in_the_second_format_are_not_loaded(store, tmp_path, name, reader):
    """As numcodecs before 0.16 would have, whose codec for objects unpickles them."""
    folder = store / "chain-0" / name
    shutil.rmtree(folder)
    folder.mkdir()
    about = {
        "zarr_format": 2, "shape": [60, 1], "chunks": [60, 1], "dtype": "|O", "order": "C", "fill_value": None,
        "compressor": None, "filters": [{"id": "pickle", "protocol": 5}],
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(about))
    (folder / "0.0").write_bytes(pickle.dumps(Planted(tmp_path / "executed")))
    with pytest.raises(sg.StoreError, match="second format"):
        READERS[reader](store)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_written_is_read(tmp_path, dtype):
    arrays.create(tmp_path / "x", (3,), dtype, {"columns": ["a", "b", "c"]})
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = arrays.GrowingArray(tmp_path / "x", 0)
    array.write(0, values)
    array.flush()
    np.testing.assert_array_equal(arrays.StoredArray(tmp_path / "x", 2)[:], values)
    about = json.loads((tmp_path / "x" / "zarr.json").read_text())
    assert {codec["name"] for codec in about["codecs"]} <= CODECS.keys()
