"""The live page in a real browser: all views of a run of 2 × 3 workers, a worker that is killed, a server that goes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GENEROUS = 600.0  # seconds: beside other work a run may take minutes to begin
SHOTS = ROOT / "browser-output"
VIEWS = ("overview", "workers", "staleness", "estimates", "step", "events", "recipe")


def until(condition, what):
    """Wait for a condition; the test fails if it never comes."""
    deadline = time.monotonic() + GENEROUS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    pytest.fail(f"waited {GENEROUS:.0f} s in vain for: {what}")


class Watched:
    """The process of the run."""

    def __init__(self, folder, what, port):
        self.log, self.folder = folder / f"{what}.log", folder
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(folder / "state")}
        command = [sys.executable, str(HERE / "watched.py"), what, str(folder), str(port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def text(self):
        return self.log.read_text()

    def addresses(self):
        return until(lambda: re.findall(r"http://\S+token=\S+", self.text()), "the addresses of the page")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def worker(self):
        """The process of some worker: a process of this session that works for the host, which forked it."""
        pids = [int(pid.name) for pid in Path("/proc").iterdir() if pid.name.isdigit()]
        found = {}
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:
                found[pid] = int(fields[1])
        parents = list(found.values())
        workers = [pid for pid, parent in found.items() if parents.count(parent) >= 6]
        return workers[0] if workers else None


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def begin(tmp_path, port):
    begun = []

    def start(what):
        begun.append(Watched(tmp_path, what, port))
        return begun[-1]

    yield start
    for each in begun:
        if each.process.poll() is None:
            each.kill()


def text(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def show(browser, view):
    browser.execute_script("location.hash = arguments[0]", view)
    until(lambda: browser.execute_script("return !document.getElementById(arguments[0]).hidden", view), view)


def inked(browser, canvas):
    """How many pixels of a canvas are drawn on, and a checksum of them."""
    return browser.execute_script(
        """const c = document.getElementById(arguments[0]);
        if (!c.width || !c.height) return [0, 0];
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let n = 0, sum = 0;
        for (let i = 3; i < d.length; i += 4) { if (d[i]) n++; sum = (sum * 31 + d[i] + d[i - 1]) % 1000003; }
        return [n, sum];""", canvas)  # fmt: skip


def signature(browser, view):
    """What a view shows, such that it differs when the view does."""
    show(browser, view)
    words = browser.execute_script("return document.getElementById(arguments[0]).innerText", view)
    canvases = {"workers": ["lanes"], "staleness": ["heat", "law"]}.get(view, [])
    pictures = browser.execute_script(
        """return [...document.querySelectorAll(`#${arguments[0]} canvas`)].map((c) => c.toDataURL().length);""", view
    )
    return words, [inked(browser, canvas) for canvas in canvases], pictures


LOST = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE")


def complaints(browser):
    """What the browser's console holds against the page, but for connections that were lost on purpose."""
    severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    return [message for message in severe if not any(lost in message for lost in LOST)]


def shots(browser, name, views=VIEWS):
    SHOTS.mkdir(exist_ok=True)
    for view in views:
        show(browser, view)
        time.sleep(0.4)  # for the picture only: nothing is asserted about it
        browser.save_screenshot(str(SHOTS / f"{name}-{view}.png"))


def test_a_run_from_beginning_to_end_and_again(begin, open_browser, tmp_path):
    run = begin("begin")
    looking, stopping = run.addresses()
    browser = open_browser()
    browser.get(looking)
    assert "token" not in browser.current_url
    until(lambda: text(browser, "state") == "running", "a running run")
    until(lambda: float(re.sub(r"[^\d.]", "", text(browser, "when").split("%")[0]) or 0) > 0, "progress")
    assert browser.execute_script("return document.getElementById('stop').hidden")

    # every view changes while the run goes on
    until(lambda: "first <b>coefficient</b>" in signature(browser, "estimates")[0], "estimates, with names as text")
    until(lambda: inked(browser, "lanes")[0] > 100 or signature(browser, "workers") is None, "the workers' timeline")
    for view in ("overview", "workers", "staleness", "estimates", "step"):
        before = signature(browser, view)
        until(lambda view=view, before=before: signature(browser, view) != before, f"a change of {view}")
    show(browser, "workers")
    recent = inked(browser, "lanes")
    browser.find_element("id", "lanes-whole").click()
    until(lambda: inked(browser, "lanes") != recent, "the timeline of the whole run")
    assert "checkpoint" in browser.page_source or "saved at" in signature(browser, "events")[0]
    assert "settings.steps" in signature(browser, "recipe")[0]
    shots(browser, "light")
    assert not complaints(browser)

    # a worker is killed
    os.kill(until(run.worker, "a worker"), signal.SIGKILL)
    until(lambda: text(browser, "faults") == "1", "the fault of the killed worker")
    assert "died" in signature(browser, "events")[0]
    before = signature(browser, "overview")
    until(lambda: signature(browser, "overview") != before, "the run going on")

    # all of it is killed, and goes on
    run.kill()
    until(lambda: "server is gone" in text(browser, "state"), "the page noticing that the server is gone")
    shots(browser, "gone", ("overview",))
    again = begin("resume")
    assert again.addresses()[0].split("token=")[1] == looking.split("token=")[1]
    until(lambda: text(browser, "state") == "running", "the page finding the run again")
    until(lambda: "the run goes on" in signature(browser, "events")[0], "the new session")
    show(browser, "overview")
    made = text(browser, "chains")
    until(lambda: text(browser, "chains") != made, "updates of the new session")
    until(lambda: "first" in signature(browser, "estimates")[0], "estimates of the new session")

    # the end, by the stop button of the second address
    other = open_browser(390, 844, dark=True)
    other.get(stopping)
    until(lambda: text(other, "state") == "running", "the page of a phone")
    wide = other.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0  # nothing sticks out of a narrow screen
    shots(other, "phone-dark")
    until(lambda: not other.execute_script("return document.getElementById('stop').hidden"), "the stop button")
    other.execute_script("window.confirm = () => true; document.getElementById('stop').click()")
    until(lambda: "ended True" in again.text(), "the end of the run")
    for each in (browser, other):
        until(lambda each=each: text(each, "state") == "interrupted", "the page after the end")
    dark = open_browser(dark=True)
    dark.get(looking)
    until(lambda: text(dark, "state") == "interrupted", "a page that is opened after the end")
    shots(dark, "dark")
    ground = dark.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(23, 26, 33)"
    assert not complaints(dark)
    (tmp_path / "leave").touch()
    assert again.process.wait(GENEROUS) == 0


def test_weight_of_the_page(begin, open_browser):
    """All that a browser is sent before the first numbers, in bytes; nothing comes from elsewhere."""
    run = begin("begin")
    browser = open_browser()
    browser.get(run.addresses()[0])
    until(lambda: text(browser, "state") == "running", "a running run")
    loaded = browser.execute_script(
        """return performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
        .filter((e) => !e.name.includes("/api/")).map((e) => [e.name, e.decodedBodySize]);"""
    )
    assert all(name.startswith("http://127.0.0.1:") for name, _ in loaded)
    total = sum(size for _, size in loaded)
    print(f"the page is {total:,} bytes in {len(loaded)} files")
    assert total < 110_000
