"""Joining a server from another job: who is let in, whose folders are trusted, and what the messages travel through."""

import contextlib
import json
import logging
import os
import socket
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.mpi import join_handshake as handshake
from stalegrad.engines.mpi import join_port
from stalegrad.engines.mpi.join_folder import JoinFolder
from stalegrad.engines.mpi.join_handshake import OTHER_MODEL, WELCOME, Verdict
from stalegrad.engines.mpi.join_port import JoinPort
from stalegrad.engines.mpi.join_search import find_server, join_server
from stalegrad.engines.mpi.socket_channel import SocketChannel

MODEL = 1234


@pytest.fixture
def port(tmp_path):
    made = JoinPort(tmp_path / "ports", 0, 2, ["a broadcast"])
    yield made
    made.close()


def until(condition):
    deadline = time.monotonic() + 60.0
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
    return found


def published(port):
    return json.loads((port.folder / "server-0.json").read_text())


class Aside:
    """A call in another thread, and what has come of it."""

    def __init__(self, function, *arguments):
        self.result = self.error = None
        self._thread = threading.Thread(target=self._call, args=(function, *arguments))
        self._thread.start()

    def _call(self, function, *arguments):
        try:
            self.result = function(*arguments)
        except Exception as error:
            self.error = error

    def wait(self):
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        return self


class TestSecret:
    def test_a_worker_that_knows_it_is_let_in(self, port):
        joining = Aside(join_server, port.folder, MODEL)
        (candidate,) = until(port.accept)
        assert candidate.model == MODEL
        candidate.tell(Verdict(WELCOME, 0, 1, 7))
        connection, verdict = joining.wait().result
        assert verdict == (WELCOME, 0, 1, 7)
        assert port.turned_away == 0
        connection.close()
        candidate.connection.close()

    def test_only_the_runs_owner_can_read_it(self, port):
        for name in ("server-0.secret", "server-0.json", "server-0.lock"):
            assert stat.S_IMODE((port.folder / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(port.folder.stat().st_mode) == 0o700
        assert len((port.folder / "server-0.secret").read_bytes()) == 32
        assert (port.folder / "server-0.secret").read_bytes().hex() not in (port.folder / "server-0.json").read_text()

    @pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n" + b"x" * 200, b"", b"y" * handshake.ANSWER_BYTES])
    def test_strangers_are_turned_away_counted_and_logged(self, port, caplog, said):
        with socket.create_connection(("127.0.0.1", published(port)["port"])) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            until(lambda: port.accept() or port.turned_away)
            assert port.turned_away == published(port)["turned_away"] == 1
            assert stranger.recv(handshake.CHALLENGE_BYTES)  # and nothing else
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        assert "turned away a connection from" in caplog.text
        assert "did not show the run's secret; 1 so far" in caplog.text

    def test_a_worker_with_another_secret_is_turned_away_and_told_why(self, port, tmp_path):
        copy = tmp_path / "copy"
        copy.mkdir(mode=0o700)
        (copy / "server-0.json").write_text(json.dumps(published(port)))
        (copy / "server-0.secret").write_bytes(bytes(32))
        (copy / "server-0.secret").chmod(0o600)
        joining = Aside(join_server, copy, MODEL)
        until(lambda: port.accept() or port.turned_away)
        until(lambda: port.accept() or joining.error is not None)
        assert "the secret in the folder is not the one of its run" in str(joining.wait().error)
        assert port.turned_away >= 1

    def test_one_that_says_nothing_is_turned_away_in_time_and_keeps_nobody_waiting(self, port, monkeypatch):
        with socket.create_connection(("127.0.0.1", published(port)["port"])):
            joining = Aside(join_server, port.folder, MODEL)
            (candidate,) = until(port.accept)  # behind the silent one
            candidate.tell(Verdict(OTHER_MODEL, 0, 0, 0))
            assert "another model or seed" in str(joining.wait().error)
            candidate.connection.close()
            assert port.turned_away == 0
            monkeypatch.setattr(join_port, "_SHOWING", 0.0)
            until(lambda: port.accept() or port.turned_away)

    def test_the_log_is_not_filled_by_those_who_try_again_and_again(self, port, caplog):
        caplog.set_level(logging.WARNING, "stalegrad")
        for count in range(1, 21):
            socket.create_connection(("127.0.0.1", published(port)["port"])).close()
            until(lambda count=count: port.accept() or port.turned_away == count)
        assert [record.args[-1] for record in caplog.records] == [1, 2, 4, 8, 16]

    def test_a_server_that_does_not_know_it_is_not_worked_for(self, port, tmp_path):
        """Somebody else who has taken the port of a server that is gone."""
        about = published(port)
        with socket.create_server(("127.0.0.1", 0)) as impostor:
            folder = tmp_path / "theirs"
            folder.mkdir(mode=0o700)
            about |= {"addresses": ["127.0.0.1"], "port": impostor.getsockname()[1]}
            (folder / "server-0.json").write_text(json.dumps(about))
            (folder / "server-0.secret").write_bytes((port.folder / "server-0.secret").read_bytes())
            (folder / "server-0.secret").chmod(0o600)
            joining = Aside(join_server, folder, MODEL)
            connection, _ = impostor.accept()
            connection.sendall(handshake.make_challenge())
            answer = b""
            while len(answer) < handshake.ANSWER_BYTES:
                answer += connection.recv(1000)
            verdict = handshake.make_verdict(b"guess", handshake.make_challenge(), answer, Verdict(WELCOME, 0, 0, 0))
            connection.sendall(verdict)
            assert "does not know the run's secret" in str(joining.wait().error)
            connection.close()

    def test_what_was_said_before_is_of_no_use_again(self):
        secret, first, second = b"s" * 32, handshake.make_challenge(), handshake.make_challenge()
        answer = handshake.make_answer(secret, first, MODEL)
        assert handshake.model_of(secret, first, answer) == MODEL
        assert handshake.model_of(secret, second, answer) is None
        assert handshake.model_of(b"t" * 32, first, answer) is None
        assert handshake.make_answer(secret, first, MODEL) != answer
        verdict = handshake.make_verdict(secret, first, answer, Verdict(WELCOME, 0, 1, 2))
        assert handshake.read_verdict(secret, first, answer, verdict) == (WELCOME, 0, 1, 2)
        other = handshake.make_answer(secret, first, MODEL)
        assert handshake.read_verdict(secret, first, other, verdict) is None
        for place in range(len(answer)):
            changed = answer[:place] + bytes([answer[place] ^ 1]) + answer[place + 1 :]
            assert handshake.model_of(secret, first, changed) is None


class TestFolder:
    def test_a_disk_that_is_full_for_a_moment_does_not_end_the_run(self, port, monkeypatch, caplog):
        def full(*arguments):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(JoinFolder, "write", full)
            port.publish(1)
        assert "has 1 places free: [Errno 28]" in caplog.text
        port.publish(0)
        assert published(port)["free"] == 0

    def test_two_runs_do_not_share_one(self, port):
        before = (port.folder / "server-0.json").read_bytes()
        with pytest.raises(sg.StalegradError, match=r"another run is being served in .*elastic=\.\.\."):
            JoinPort(port.folder, 0, 2, [])
        assert (port.folder / "server-0.json").read_bytes() == before
        JoinPort(port.folder, 1, 2, []).close()  # the second server of the same run

    def test_what_a_killed_server_has_left_is_taken_over(self, tmp_path):
        folder = tmp_path / "ports"
        folder.mkdir(mode=0o700)
        for name in ("server-0.lock", "server-0.json", "server-0.secret"):
            (folder / name).write_text("old")
        port = JoinPort(folder, 0, 2, [])
        assert find_server(folder)[1]["free"] == 2
        port.close()
        assert not folder.exists()

    @pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720])
    def test_one_that_others_may_write_to_is_refused(self, tmp_path, mode):
        folder = tmp_path / "ports"
        folder.mkdir()
        folder.chmod(mode)
        for use in (
            lambda: JoinPort(folder, 0, 2, []),
            lambda: join_server(folder, MODEL),
            lambda: find_server(folder),
        ):
            with pytest.raises(sg.StalegradError, match=f"can be written to by others.*{mode:o}.*chmod 700"):
                use()
        assert list(folder.iterdir()) == []

    def test_one_of_another_user_is_refused(self, tmp_path, monkeypatch):
        folder = tmp_path / "ports"
        folder.mkdir(mode=0o755)
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        for use in (lambda: JoinPort(folder, 0, 2, []), lambda: join_server(folder, MODEL)):
            with pytest.raises(sg.StalegradError, match="belongs to another user"):
                use()

    def test_a_link_is_refused_and_what_it_names_is_untouched(self, tmp_path):
        mine = tmp_path / "mine"
        mine.mkdir(mode=0o700)
        (tmp_path / "ports").symlink_to(mine)
        with pytest.raises(sg.StalegradError, match=f"is a link.*name the folder itself: {mine}"):
            JoinPort(tmp_path / "ports", 0, 2, [])
        assert list(mine.iterdir()) == []

    def test_links_in_it_are_replaced_or_refused_never_followed(self, tmp_path):
        folder, precious = tmp_path / "ports", tmp_path / "precious"
        folder.mkdir(mode=0o700)
        precious.write_text("mine")
        for name in ("server-0.json", "server-0.secret"):
            (folder / name).symlink_to(precious)
        port = JoinPort(folder, 0, 2, [])
        assert precious.read_text() == "mine"
        assert not (folder / "server-0.secret").is_symlink()
        port.close()
        folder.mkdir(mode=0o700)
        (folder / "server-0.lock").symlink_to(precious)
        with pytest.raises(sg.StalegradError, match=r"server-0\.lock cannot be made"):
            JoinPort(folder, 0, 2, [])
        (folder / "server-0.json").symlink_to(precious)
        with pytest.raises(sg.StalegradError, match="no server can be joined"):
            find_server(folder)
        assert precious.read_text() == "mine"

    def test_a_secret_that_others_can_read_is_refused(self, port):
        (port.folder / "server-0.secret").chmod(0o644)
        with pytest.raises(sg.StalegradError, match=r"server-0\.secret can be read by others"):
            join_server(port.folder, MODEL)

    def test_names_are_listed_and_not_asked_for(self, port, monkeypatch):
        """On NFS a name that was not there is remembered as missing for a while."""

        def refuse(*arguments):
            pytest.fail("a name was asked for")

        monkeypatch.setattr(Path, "exists", refuse)
        monkeypatch.setattr(os.path, "exists", refuse)
        assert find_server(port.folder)[0] == "server-0"

    def test_where_no_run_is_the_error_says_so(self, tmp_path):
        with pytest.raises(sg.StalegradError, match=r"no server can be joined in .*Start the run first"):
            join_server(tmp_path / "none", MODEL)
        folder = JoinFolder(tmp_path / "empty", create=True)
        folder.close()
        with pytest.raises(sg.StalegradError, match=r"no server can be joined in .*Start the run first"):
            join_server(tmp_path / "empty", MODEL)

    def test_a_server_that_is_gone_is_named(self, port, tmp_path):
        about = published(port) | {"port": 9, "addresses": ["127.0.0.1"]}
        port._files.write("server-0.json", json.dumps(about).encode())
        with pytest.raises(sg.StalegradError, match=r"port 9, could not be reached \(127.*Is it still there\?"):
            join_server(port.folder, MODEL)


def pair(longest=10**7):
    ends = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for end in ends:
            end.close()
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    return SocketChannel(near, longest), SocketChannel(far, longest)


class TestSocketChannel:
    @pytest.fixture
    def ends(self):
        made = pair()
        yield made
        for end in made:
            end.close()

    def test_messages_of_any_size_arrive_whole_and_in_order(self, ends):
        """Larger than any buffer of the system, so that both sides must go on with what they have begun."""
        near, far = ends
        rng = np.random.default_rng(0)
        sent = [rng.integers(0, 255, size, np.uint8) for size in (0, 1, 64, 5_000_000, 3, 9_999_999)]
        arrived = np.zeros(10**7, np.uint8)
        receiving = far.receiver(0, 1, arrived)
        for message in sent:
            request = near.post(0, 1, message)
            far.start(receiving)
            until(lambda request=request: near.done(request) & far.done(receiving))
            np.testing.assert_array_equal(arrived[: len(message)], message)

    def test_tags_do_not_wait_for_each_other(self, ends):
        near, far = ends
        for tag, value in ((1, 11), (2, 22), (1, 12)):
            near.post(0, tag, np.array([value]))
        found = np.zeros(1, np.int64)
        for tag, value in ((2, 22), (1, 11), (1, 12)):
            receiving = far.receiver(0, tag, found)
            far.start(receiving)
            assert far.wait(receiving, 60.0)
            assert found[0] == value

    def test_what_came_before_the_end_is_received_and_what_is_sent_after_it_is_lost(self, ends):
        near, far = ends
        far.wait(far.post(0, 1, np.array([5])))
        far.close()
        for _ in range(20):
            assert near.wait(near.post(0, 1, np.zeros(1000)), 60.0)  # never stuck
            time.sleep(0.002)
        found = np.zeros(1, np.int64)
        receiving, never = near.receiver(0, 1, found), near.receiver(0, 1, found)
        near.start(receiving)
        assert near.wait(receiving, 60.0)
        assert found[0] == 5
        near.start(never)
        assert not near.wait(never, 0.05)
        assert near.closed

    @pytest.mark.parametrize("length", [10**6, 2**63])
    def test_a_message_that_is_too_long_ends_the_connection(self, length):
        near, far = pair(longest=1000)
        found = np.zeros(1000, np.uint8)
        receiving = far.receiver(0, 1, found)
        far.start(receiving)
        near._socket.send((1).to_bytes(4, "big") + length.to_bytes(8, "big"))
        until(lambda: far.done(receiving) or far.closed)
        assert not far.done(receiving)
        for end in (near, far):
            end.close()

    def test_messages_that_nobody_asks_for_are_left_to_the_sender(self, ends):
        """Memory is bounded: a sender whose messages are not taken comes to a halt."""
        near, far = ends
        message = np.zeros(10**6, np.uint8)
        requests = [near.post(0, 2, message) for _ in range(60)]
        waiting = far.receiver(0, 1, np.zeros(1))
        far.start(waiting)
        for _ in range(300):
            near.done(requests[-1])
            far.done(waiting)
        assert not near.done(requests[-1])
        assert sum(len(messages) for messages in far._unclaimed.values()) <= 16
