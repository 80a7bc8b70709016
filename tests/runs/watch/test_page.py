"""The live page over HTTP: who is let in, what is told, and that nothing but reading is possible."""

import asyncio
import json
import re
import socket
import threading
from importlib.resources import files

import httpx
import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.observers.stored import StoredSource
from stalegrad.runs.watch import access
from stalegrad.runs.watch.access import Hosts, Tokens
from stalegrad.runs.watch.content import Content
from stalegrad.runs.watch.options import Watch
from stalegrad.runs.watch.server import Page, application, page_files

TOKENS = Tokens("view-token", "control-token")
EVIL = "<script>alert(1)</script>"
GENEROUS = 60.0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run whose parameters have a hostile name and whose worker failed with a hostile message."""

    class Hostile(sg.potentials.Potential):
        def __init__(self):
            super().__init__(2, sg.potentials.Minibatches.of(4, 1, "subset"), np.dtype(np.float64))
            self.calls = 0

        layout = {EVIL: (2,)}  # noqa: RUF012

        def gradient(self, theta, indices):
            self.calls += 1
            if self.calls == 7:
                raise ValueError(EVIL)
            return theta

    folder = tmp_path_factory.mktemp("runs") / "x"
    settings = {"steps": 60, "workers": 2, "servers": 2, "progress": False}
    sg.sample(Hostile(), sg.SGLD(step_size=0.1), store=folder, **settings)
    return folder


@pytest.fixture
def stopped():
    return []


@pytest.fixture
def app(store, stopped):
    sampler = Sampler(StoredSource(store))
    sampler.look()
    return application(Content(sampler), TOKENS, Hosts("127.0.0.1"), stop=lambda: stopped.append(True), port=8707)


class Browser:
    """Asks the application without a network, and keeps its cookies."""

    def __init__(self, app, token=None):
        self._app, self._cookies = app, httpx.Cookies()
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def request(self, method, path, headers=None):
        async def ask():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8707", cookies=self._cookies
            ) as client:
                answer = await client.request(method, path, headers=self._headers | (headers or {}))
                self._cookies.update(client.cookies)
                return answer

        return asyncio.run(ask())

    def get(self, path, headers=None):
        return self.request("GET", path, headers)

    def post(self, path, headers=None):
        return self.request("POST", path, headers)


client = Browser


class TestClosed:
    @pytest.mark.parametrize(
        "path", ["/", "/static/page.js", "/api/state", "/api/events", "/metrics", "/api/stop", "/nothing"]
    )
    @pytest.mark.parametrize("token", [None, "wrong", "view-toke", ""])
    def test_without_the_token(self, app, path, token):
        method = "POST" if path == "/api/stop" else "GET"
        answer = client(app, token).request(method, path)
        assert answer.status_code == 401
        assert "view-token" not in answer.text

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8707", "10.0.0.7", ""]
    )
    def test_by_another_name(self, app, host):
        answer = client(app, "view-token").get("/api/state", headers={"host": host})
        assert answer.status_code == 421

    @pytest.mark.parametrize("host", ["127.0.0.1:8707", "localhost:1", "[::1]:8707", "LOCALHOST"])
    def test_by_its_own(self, app, host):
        assert client(app, "view-token").get("/", headers={"host": host}).status_code == 200

    def test_the_token_becomes_a_cookie_and_leaves_the_address(self, app):
        browser = client(app)
        answer = browser.get("/?token=view-token&x=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/").status_code == 200
        assert client(app).get("/?token=wrong").status_code == 401

    @pytest.mark.parametrize(
        "path",
        ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/%2e%2e/access.py", "/../../etc/passwd",
         "/static//etc/passwd", "/static/", "/static/page.js%00.html", "/static/..\\server.py"],
    )  # fmt: skip
    def test_paths_that_climb(self, app, path):
        answer = client(app, "view-token").get(path)
        assert answer.status_code == 404
        assert "root:" not in answer.text
        assert "import" not in answer.text

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    @pytest.mark.parametrize("path", ["/", "/api/state", "/static/page.js", "/metrics"])
    def test_nothing_but_reading(self, app, method, path):
        assert client(app, "control-token").request(method, path).status_code == 405

    def test_every_answer_is_marked(self, app):
        for path in ("/", "/static/page.js", "/api/state", "/nothing"):
            for token in (None, "view-token"):
                answer = client(app, token).get(path)
                assert "access-control-allow-origin" not in answer.headers
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"

    def test_other_sites(self, app):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "origin": "http://evil.example"}
        assert client(app, "view-token").get("/api/state", headers=headers).status_code == 403
        preflight = client(app, "view-token").request("OPTIONS", "/api/state", headers)
        assert preflight.status_code == 403


class TestStop:
    OWN = {"origin": "http://127.0.0.1:8707", "x-stalegrad": "stop"}  # noqa: RUF012

    def test_the_token_decides(self, app, stopped):
        assert client(app, "view-token").post("/api/stop", headers=self.OWN).status_code == 403
        assert not stopped
        assert client(app, "control-token").post("/api/stop", headers=self.OWN).status_code == 202
        assert stopped == [True]

    @pytest.mark.parametrize(
        "headers", [{}, {"origin": "http://evil.example", "x-stalegrad": "stop"}, {"origin": "http://127.0.0.1:8707"}]
    )
    def test_only_from_the_page_itself(self, app, stopped, headers):
        assert client(app, "control-token").post("/api/stop", headers=headers).status_code == 403
        assert not stopped

    def test_the_page_knows(self, app):
        for token, may in (("view-token", False), ("control-token", True)):
            assert client(app, token).get("/api/state").json()["rights"] == {"stop": may}

    def test_it_ends_a_run(self):
        started = threading.Event()

        def gradient(theta, indices):
            started.set()
            return theta

        class Stops(sg.observers.Observer):
            every = 0.05

            def snapshot(self, snapshot):
                if started.is_set():
                    self.stop()

        model, observer = sg.potentials.from_gradient(gradient, size=2, n_data=4), Stops()
        from stalegrad.engines import Threads

        class Caught(Threads):
            def run(self, job):
                observer.stop = job.ask_to_stop
                return super().run(job)

        run = sg.sample(
            model, sg.SGLD(step_size=0.1), steps=10**7, engine=Caught(), progress=False, observers=observer, thin=10**4
        )
        assert run.interrupted


class TestContent:
    def test_names_and_tracebacks_are_data(self, app):
        state = client(app, "view-token").get("/api/state").json()
        assert state["functions"]["now"][0]["name"] == f"{EVIL}[0]"
        (fault,) = [event for event in state["events"] if event["kind"] == "fault"]
        assert fault["text"].endswith(f"ValueError: {EVIL}")
        assert "Traceback" in fault["details"]
        assert state["head"]["state"] == "finished"
        assert [chain["updates"] for chain in state["head"]["chains"]] == [60, 60]
        assert state["pictures"]["total"] >= 120
        assert state["recipe"]["parameters"]["settings.steps"] == "60"

    def test_the_page_itself_never_takes_text_for_markup(self):
        for name, content in page_files().items():
            if name.endswith(".js") and name != "uplot.js":
                assert not re.search(
                    rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", content
                ), name
        page = page_files()["index.html"].decode()
        assert "http" not in page.replace("http-equiv", "")
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|<style|\sstyle=", page)

    def test_uplot_comes_with_its_licence(self):
        assert b"MIT License" in page_files()["uplot-license.txt"]
        assert (files("stalegrad.runs.watch") / "page" / "uplot.js").is_file()

    def test_metrics(self, app):
        answer = client(app, "view-token").get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'stalegrad_updates_total{run="x",chain="0"} 60' in answer.text

    def test_aggregates_stay_small(self, tmp_path):
        """64 workers and ten million gradients: what a browser is sent does not grow with them."""
        from stalegrad.protocol.chain_trace import unchecked
        from stalegrad.protocol.trace_bins import TraceBins
        from stalegrad.runs.observers.pictures import binned

        tally, rows = TraceBins(1, 64), 1 << 14
        random = np.random.Generator(np.random.Philox(3))
        for block in range(40):
            time = np.sort(random.uniform(block, block + 1, rows))
            tally.add(0, unchecked(
                worker=random.integers(0, 64, rows).astype(np.int32), count=np.arange(rows),
                staleness=random.poisson(63, rows).astype(np.int32), accepted=random.random(rows) < 0.9, time=time,
                gradient_seconds=np.full(rows, 2.4e-4, np.float32),
            ), 250_000)  # fmt: skip
        table = binned(tally)
        assert table["total"] == 10_000_000
        assert len(json.dumps(table)) < 150_000
        assert np.mean(table["rate"][1:-1]) == pytest.approx(250_000, rel=0.01)
        assert np.mean(table["share"][1:-1]) == pytest.approx(250_000 * 2.4e-4 / 64, rel=0.02)
        assert sum(map(sum, table["law"])) == pytest.approx(1, abs=1e-3)
        assert table["lanes"] == 64


class TestServed:
    def test_a_browser_that_never_reads_holds_up_nobody(self, monkeypatch):
        gate, seen = threading.Event(), threading.Event()
        calls = []

        def gradient(theta, indices):
            calls.append(1)
            if len(calls) > 20:
                assert gate.wait(GENEROUS)
            return theta

        class Connects(sg.observers.Observer):
            """Opens connections that ask for all events and never read a byte, then lets the run go on."""

            every = 0.05

            def start(self, recipe):
                self.open = []

            def snapshot(self, snapshot):
                if self.page is not None and not self.open:
                    for _ in range(3):
                        silent = socket.create_connection(("127.0.0.1", self.page.port))
                        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                        headers = f"Host: localhost\r\nAuthorization: Bearer {self.page.tokens.view}"
                        silent.sendall(f"GET /api/events HTTP/1.1\r\n{headers}\r\n\r\n".encode())
                        self.open.append(silent)
                    seen.set()
                    gate.set()

        observer = Connects()
        observer.page = None

        def noted(*arguments, **others):
            observer.page = serve(*arguments, **others)
            return observer.page

        serve = Page.serve
        monkeypatch.setattr(Page, "serve", noted)
        model = sg.potentials.from_gradient(gradient, size=2, n_data=4)
        run = sg.sample(
            model, sg.SGLD(step_size=0.1), steps=400, workers=2, progress=False, observers=observer, watch=Watch(port=0)
        )
        assert seen.is_set()
        assert run.draws.shape == (1, 400, 2)
        for silent in observer.open:
            silent.close()
        observer.page.close()

    @pytest.mark.parametrize(
        "path", ["/static/../access.py", "/../../../../etc/passwd", "/static/..%2faccess.py", "*", "//x"]
    )
    def test_paths_that_climb_as_they_come_over_the_wire(self, store, path):
        page = Page.serve(Watch(port=0), Sampler(StoredSource(store)))
        try:
            with socket.create_connection(("127.0.0.1", page.port), timeout=GENEROUS) as wire:
                headers = f"Host: localhost\r\nConnection: close\r\nAuthorization: Bearer {page.tokens.view}"
                wire.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
                answer = b"".join(iter(lambda: wire.recv(65536), b""))
            assert re.match(rb"HTTP/1.1 4\d\d ", answer)
            assert b"root:" not in answer
            assert b"import" not in answer
        finally:
            page.close()

    def test_address_and_warning(self, store, capsys):
        sampler = Sampler(StoredSource(store))
        page = Page.serve(Watch(port=0), sampler, secret=store)
        again = Page.serve(Watch(port=0), sampler, secret=store)
        wide = Page.serve(Watch(host="0.0.0.0", port=0), sampler, stop=lambda: None)
        try:
            assert page.announcement() == f"watch this run at http://127.0.0.1:{page.port}/?token={page.tokens.view}"
            assert page.tokens == again.tokens  # pages that are open find a run again that goes on
            assert wide.tokens.view != page.tokens.view
            assert "is open to the network (0.0.0.0), without encryption" in wide.announcement()
            assert wide.tokens.control in wide.announcement()
        finally:
            for each in (page, again, wide):
                each.close()

    def test_a_port_that_is_taken(self, store):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(sg.ArgumentError, match="another port"):
                Page.serve(Watch(port=taken.getsockname()[1]), Sampler(StoredSource(store)))


class TestTokens:
    @pytest.fixture(autouse=True)
    def own_state(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def test_those_of_a_folder_stay(self, tmp_path):
        first, second = (Tokens.make(control=True, of=tmp_path / "x") for _ in range(2))
        assert first == second
        assert len({*first, *Tokens.make(control=True, of=tmp_path / "y"), *Tokens.make(control=True)}) == 6
        secret = tmp_path / "state" / "stalegrad" / "watch-secret"
        assert secret.stat().st_mode & 0o077 == 0

    def test_a_secret_that_others_can_read_is_not_used(self, tmp_path):
        before = Tokens.make(control=False, of=tmp_path)
        (tmp_path / "state" / "stalegrad" / "watch-secret").chmod(0o644)
        assert Tokens.make(control=False, of=tmp_path) != before

    def test_what_they_allow(self):
        assert [TOKENS.allows(given) for given in ("view-token", "control-token", "x", "", None, "ø")] == [
            "view", "control", None, None, None, None,
        ]  # fmt: skip
        assert Tokens("a", None).allows("None") is None


def test_names_of_an_open_page():
    hosts = Hosts("0.0.0.0", ("box.example",))
    assert all(hosts.allow(host) for host in ("192.168.1.5:80", "box.example", socket.gethostname(), "localhost"))
    assert not hosts.allow("evil.example")
    assert not access.is_loopback("0.0.0.0")
    assert access.is_loopback("::1")


@pytest.mark.parametrize("given", ["yes", 1, None.__class__])
def test_what_watch_may_be(given):
    with pytest.raises(sg.ArgumentError, match=r"sg\.Watch\(port=8000\)"):
        sg.sample(sg.potentials.from_gradient(lambda t, i: t, size=1, n_data=1), steps=1, watch=given)
