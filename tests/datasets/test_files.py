"""Where files come from, what is verified, and what a user without them is told."""

import gzip
import hashlib
import http.server
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import threading

import pytest

import stalegrad as sg
from stalegrad.datasets import a9a_libsvm, cifar10_binary, files, mnist_idx
from stalegrad.datasets.files import Download, File, read

CONTENT = b"-1 1:1 3:1\n+1 2:1\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def file_of(name="set", content=CONTENT, offered=None, urls=("http://127.0.0.1:9/nothing",)):
    """A file, and its download: the file itself unless ``offered`` says what its bytes on the web are."""
    return File(name, sha256(content), Download(name, sha256(content if offered is None else offered), urls))


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """A cache of the test's own, and no folder of the user's."""
    monkeypatch.setattr(files, "cache", lambda: tmp_path / "cache")
    monkeypatch.delenv(files.VARIABLE, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def web(tmp_path):
    """A folder that a local server offers, its address, and the list of what was asked for."""
    folder, asked = tmp_path / "web", []
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=folder)

        def log_message(self, *arguments):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()
        thread.join()


FORMS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", FORMS)
def test_a_folder_of_the_user_is_read_in_every_form(tmp_path, monkeypatch, suffix):
    (tmp_path / "own" / "a9a").mkdir(parents=True)
    (tmp_path / "own" / "a9a" / f"set{suffix}").write_bytes(FORMS[suffix](CONTENT))
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "own"))
    assert read("a9a", (file_of(),)) == {"set": CONTENT}


def test_the_cache_is_read_where_the_users_folder_lacks_a_file(tmp_path, monkeypatch):
    (tmp_path / "cache" / "a9a").mkdir(parents=True)
    (tmp_path / "cache" / "a9a" / "set.gz").write_bytes(gzip.compress(CONTENT))
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "empty"))
    assert read("a9a", (file_of(),)) == {"set": CONTENT}


def test_a_file_is_downloaded_once_and_cached(tmp_path, web, capsys):
    folder, address, asked = web
    (folder / "set").write_bytes(CONTENT)
    wanted = (file_of(urls=(address + "set",)),)
    assert read("a9a", wanted) == read("a9a", wanted) == {"set": CONTENT}
    assert asked == ["/set"]
    assert os.listdir(tmp_path / "cache" / "a9a") == ["set"]
    assert "100%" in capsys.readouterr().err  # the progress bar


def test_the_next_mirror_is_tried_and_a_compressed_file_stays_so(tmp_path, web):
    folder, address, asked = web
    packed = gzip.compress(CONTENT)
    (folder / "set.gz").write_bytes(packed)
    download = Download("set.gz", sha256(packed), (f"{address}gone/set.gz", f"{address}set.gz"))
    assert read("mnist", (File("set", sha256(CONTENT), download),)) == {"set": CONTENT}
    assert len(asked) >= 2
    assert os.listdir(tmp_path / "cache" / "mnist") == ["set.gz"]


def test_an_archive_is_unpacked_and_not_kept(tmp_path, web):
    folder, address, _ = web
    contents = {"one.bin": b"1" * 100, "two.bin": b"2" * 100}
    with tarfile.open(folder / "all.tar.gz", "w:gz") as archive:
        for name, content in {**contents, "readme.html": b"hello"}.items():
            member = tarfile.TarInfo(f"inner/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    download = Download("all.tar.gz", sha256((folder / "all.tar.gz").read_bytes()), (f"{address}all.tar.gz",))
    wanted = tuple(File(name, sha256(content), download) for name, content in contents.items())
    assert read("cifar10", wanted) == contents
    assert sorted(os.listdir(tmp_path / "cache" / "cifar10")) == ["one.bin", "two.bin"]


def test_a_damaged_file_is_named_with_what_was_expected_and_found(tmp_path):
    path = tmp_path / "cache" / "a9a" / "set"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"rubbish")
    with pytest.raises(sg.DatasetError) as caught:
        read("a9a", (file_of(),))
    for part in (str(path), sha256(CONTENT), sha256(b"rubbish"), "7 bytes"):
        assert part in str(caught.value)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_truncated_file_is_named(tmp_path, suffix):
    path = tmp_path / "cache" / "a9a" / f"set{suffix}"
    path.parent.mkdir(parents=True)
    path.write_bytes(FORMS[suffix](CONTENT)[:-9])
    with pytest.raises(sg.DatasetError, match="cannot be read"):
        read("a9a", (file_of(),))


def test_a_download_with_the_wrong_bytes_is_refused_and_not_kept(tmp_path, web):
    folder, address, _ = web
    (folder / "set").write_bytes(b"rubbish")
    with pytest.raises(sg.DatasetError) as caught:
        read("a9a", (file_of(urls=(address + "set",)),))
    assert sha256(CONTENT) in str(caught.value)
    assert sha256(b"rubbish") in str(caught.value)
    assert os.listdir(tmp_path / "cache" / "a9a") == []


def test_an_archive_that_lacks_a_file_says_so(web):
    folder, address, _ = web
    with tarfile.open(folder / "all.tar.gz", "w:gz"):
        pass
    download = Download("all.tar.gz", sha256((folder / "all.tar.gz").read_bytes()), (f"{address}all.tar.gz",))
    with pytest.raises(sg.DatasetError, match=r"all\.tar\.gz of cifar10 does not hold one\.bin"):
        read("cifar10", (File("one.bin", sha256(b""), download),))


def test_without_network_and_data_the_message_says_what_to_put_where(tmp_path):
    wanted = file_of("train"), file_of("test", b"other", urls=("http://127.0.0.1:9/test", "http://127.0.0.1:9/again"))
    with pytest.raises(sg.DatasetError) as caught:
        read("a9a", wanted)
    message = str(caught.value)
    assert "could not be downloaded" in message
    assert "STALEGRAD_DATA is not set" in message
    assert str(tmp_path / "cache" / "a9a") in message
    for file in wanted:
        assert f"{file.name:5}  sha256 {file.sha256}" in message
        assert all(url in message for url in file.download.urls)


def test_every_file_of_every_data_set_has_a_checksum_and_a_public_address():
    listed = (a9a_libsvm.TRAIN, a9a_libsvm.TEST, *mnist_idx.FILES, *cifar10_binary.TRAIN, cifar10_binary.TEST)
    assert len({file.sha256 for file in listed}) == len(listed) == 12
    for file in listed:
        assert len(bytes.fromhex(file.sha256)) == len(bytes.fromhex(file.download.sha256)) == 32
        assert file.download.urls
        assert all(url.startswith("https://") and url.endswith(file.download.name) for url in file.download.urls)


def test_importing_loads_no_downloader(fresh_python):
    code = "import sys, stalegrad.datasets; print(*{'pooch', 'requests', 'tqdm'} & set(sys.modules))"
    done = fresh_python("-c", code)
    assert (done.stdout.strip(), done.returncode) == ("", 0)


FIRST_USE = """
import json, sys
from pathlib import Path
from stalegrad.datasets import files
from stalegrad.datasets.files import Download, File, read

cache, wanted, dataset, lockless = json.loads(sys.argv[1])
files.cache = lambda: Path(cache)
if lockless:
    def refuse(*arguments):
        raise OSError("no locks here")
    files.fcntl.flock = refuse
print("ready", flush=True)
sys.stdin.readline()
found = read(dataset, tuple(File(name, sha, Download(*download)) for name, sha, download in wanted))
print(sorted((name, len(content)) for name, content in found.items()))
"""


@pytest.mark.parametrize(
    ("dataset", "lockless"),
    [("cifar10", True), *(pytest.param(name, False, marks=pytest.mark.long) for name in ("cifar10", "mnist", "a9a"))],
)
def test_six_processes_use_a_data_set_for_the_first_time_at_once(tmp_path, web, dataset, lockless):
    """As the ranks of an MPI job do; also on file systems without locks, where each of them downloads."""
    folder, address, asked = web
    (tmp_path / "cache" / f".{dataset}-left").mkdir(parents=True)  # by a process that was killed
    contents = {f"part-{k}": bytes([k]) * 300_000 for k in range(6)}
    if dataset == "cifar10":
        with tarfile.open(folder / "all.tar.gz", "w:gz") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(f"inner/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        offered = dict.fromkeys(contents, "all.tar.gz")
    else:
        packed = dataset == "mnist"
        offered = {name: f"{name}.gz" if packed else name for name in contents}
        for name, content in contents.items():
            (folder / offered[name]).write_bytes(gzip.compress(content) if packed else content)
    wanted = []
    for name, content in contents.items():
        download = offered[name], sha256((folder / offered[name]).read_bytes()), (address + offered[name],)
        wanted.append((name, sha256(content), download))
    argument = json.dumps([str(tmp_path / "cache"), wanted, dataset, lockless])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", FIRST_USE, argument], **pipes) for _ in range(6)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, err = process.communicate(timeout=120)
        assert out == f"{sorted((name, len(content)) for name, content in contents.items())}\n", err
    assert len(set(asked)) == len(set(offered.values()))
    if not lockless:
        assert len(asked) == len(set(asked))  # each was downloaded once
        assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [tmp_path / "cache" / dataset]
