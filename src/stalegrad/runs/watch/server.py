"""Serves the live page, in a thread of its own: Starlette's application and uvicorn's server.

A browser is sent what has changed, at most once a second, as server-sent events. What is sent is made once for all
browsers, and only if there are any. One that does not read holds up its own connection and nothing else: while it does
not, nothing is made for it, and then it gets what is newest.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from http.cookies import SimpleCookie
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.text import printable
from stalegrad.runs.observers.adapters.prometheus import exposition
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.watch.access import HEADERS, Hosts, Tokens, is_loopback
from stalegrad.runs.watch.content import Content
from stalegrad.runs.watch.options import PORT, Watch

_MOST_BROWSERS = 32
_LOOK = 0.25  # seconds between looks for something new
_STILL_HERE = 10.0  # seconds after which a browser is told so
_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
          ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}  # fmt: skip


def page_files() -> dict[str, bytes]:
    """All files of the page by name; there are no others, so that no path leads anywhere else."""
    here = files("stalegrad.runs.watch") / "page"
    look = files("stalegrad._internal") / "look" / "look.css"
    found = {entry.name: entry.read_bytes() for entry in here.iterdir() if Path(entry.name).suffix in _TYPES}
    return found | {"look.css": look.read_bytes()}


class Guard:
    """Lets through what may be answered, see :mod:`stalegrad.runs.watch.access`, and marks every answer."""

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Hosts, cookie: str) -> None:
        self._app, self._tokens, self._hosts, self._cookie = app, tokens, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            await send(message)

        await (self._refused(request) or self._entered(request) or self._app)(scope, receive, marked)

    def _refused(self, request: Request) -> Response | None:
        if not self._hosts.allow(request.headers.get("host")):
            return PlainTextResponse(
                "This name is not one of this page's. Give it as a name of the page: --name NAME.\n", 421
            )
        if request.headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and not (
            request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
        ):
            return PlainTextResponse("Other sites may not ask for this page.\n", 403)
        if self._allowed(request) is None and self._offered(request) is None:
            return PlainTextResponse(
                "This page needs its token: open the address that was printed when the run began, or that\n"
                "    stalegrad watch RUN\nprints.\n", 401, {"www-authenticate": "Bearer"},
            )  # fmt: skip
        return None

    def _entered(self, request: Request) -> Response | None:
        """A token in the address becomes a cookie, and the address loses it."""
        offered = self._offered(request)
        if offered is None:
            request.state.allowed = self._allowed(request)
            return None
        rest = urlencode([(name, value) for name, value in parse_qsl(request.url.query) if name != "token"])
        answer = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
        token = request.query_params["token"]
        answer.set_cookie(self._cookie, token, httponly=True, samesite="strict", path="/")
        return answer

    def _offered(self, request: Request) -> str | None:
        return self._tokens.allows(request.query_params.get("token")) if request.method == "GET" else None

    def _allowed(self, request: Request) -> str | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(request.headers.get("cookie", ""))
        except Exception:  # whatever somebody has put there
            jar = SimpleCookie()
        cookie = jar[self._cookie].value if self._cookie in jar else None
        return self._tokens.allows(bearer) or self._tokens.allows(cookie)


def application(
    content: Content, tokens: Tokens, hosts: Hosts, *, stop: Callable[[], None] | None = None, port: int = 0
) -> ASGIApp:
    """The page and what it asks for: a GET reads, and the only other request is to stop the run.

    Args:
        content: what the page shows.
        tokens: what opens it.
        hosts: the names by which it may be asked for.
        stop: ends the run early; None if it cannot be ended from here.
        port: that it is served at: cookies know no ports.
    """
    static, browsers = page_files(), 0

    async def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in static:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(static[name], media_type=_TYPES[Path(name).suffix])

    async def state(request: Request) -> Response:
        may = request.state.allowed == "control" and stop is not None
        return Response(await asyncio.to_thread(content.whole, may), media_type="application/json")

    async def metrics(request: Request) -> Response:
        latest = content.sampler.latest
        text = "" if latest is None else exposition(latest, content.sampler.source.recipe.name)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def events(request: Request) -> Response:
        nonlocal browsers
        if browsers >= _MOST_BROWSERS:
            return PlainTextResponse(f"There are {_MOST_BROWSERS} pages open already.\n", 503)
        may = request.state.allowed == "control" and stop is not None

        async def stream() -> AsyncIterator[str]:
            nonlocal browsers
            browsers += 1
            sent: dict[str, str] = {}
            try:
                yield "retry: 1000\n\n"
                silent = 0.0
                while True:
                    number, sections = await asyncio.to_thread(content.sections, may)
                    changed = {name: text for name, text in sections.items() if sent.get(name) != text}
                    if changed:
                        sent |= changed
                        body = ",".join(f"{json.dumps(name)}:{text}" for name, text in changed.items())
                        yield f"event: state\ndata: {{{body}}}\n\n"
                        silent = 0.0
                    while content.number == number:
                        await asyncio.sleep(_LOOK)
                        silent += _LOOK
                        if silent >= _STILL_HERE:
                            yield ": still here\n\n"
                            silent = 0.0
            finally:
                browsers -= 1

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def stop_run(request: Request) -> Response:
        own = request.headers.get("origin") in (
            f"http://{request.headers['host']}",
            f"https://{request.headers['host']}",
        )
        if request.state.allowed != "control" or stop is None:
            return PlainTextResponse("This token does not allow to stop the run.\n", 403)
        if not own or request.headers.get("x-stalegrad") != "stop":
            return PlainTextResponse("The run can be stopped from its own page alone.\n", 403)
        await asyncio.to_thread(stop)
        return JSONResponse({"asked": True}, 202)

    routes = [
        Route("/", asset), Route("/static/{name}", asset), Route("/api/state", state), Route("/api/events", events),
        Route("/metrics", metrics), Route("/api/stop", stop_run, methods=["POST"]),
    ]  # fmt: skip
    return Guard(Starlette(routes=routes), tokens, hosts, f"stalegrad_{port}")


class Page:
    """A page that is being served.

    Args:
        options: how.
        port: where.
        tokens: what opens it.
        server: which serves it.
        thread: in which.
    """

    def __init__(
        self, options: Watch, port: int, tokens: Tokens, server: uvicorn.Server, thread: threading.Thread
    ) -> None:
        self.options, self.port, self.tokens = options, port, tokens
        self._server, self._thread = server, thread

    @classmethod
    def serve(
        cls,
        options: Watch,
        sampler: Sampler,
        *,
        stop: Callable[[], None] | None = None,
        secret: Path | None = None,
    ) -> "Page":
        """Serve the page from now on; it goes on after the run has ended, until the process does."""
        listener = _listening(options)
        port = listener.getsockname()[1]
        tokens = Tokens.make(control=stop is not None, of=secret)
        app = application(Content(sampler), tokens, Hosts(options.host, options.names), stop=stop, port=port)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", ws="none", http="h11", loop="asyncio",
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="stalegrad-page", daemon=True)
        thread.start()
        return cls(options, port, tokens, server, thread)

    def address(self, token: str) -> str:
        """Where a browser finds it, with a token."""
        host = self.options.host
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/?token={token}"

    def announcement(self) -> str:
        """What is printed when it is served."""
        lines = [f"watch this run at {self.address(self.tokens.view)}"]
        if self.tokens.control is not None:
            lines.append(f"or, to be able to stop it, at {self.address(self.tokens.control)}")
        if not is_loopback(self.options.host):
            lines.append(
                f"note: port {self.port} is open to the network ({self.options.host}), without encryption: whoever has "
                "or overhears these addresses sees the settings, numbers, names and tracebacks of this run"
            )
        return printable("\n".join(lines))

    def close(self) -> None:
        """Stop serving the page, and close its port."""
        self._server.should_exit = True
        self._thread.join(timeout=5.0)


def _listening(options: Watch) -> socket.socket:
    """A socket at the port that was asked for, or at the first that is free."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    ports = [options.port] if options.port is not None else [*range(PORT, PORT + 20), 0]
    problem: OSError | None = None
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((options.host, port))
            listener.listen(64)  # who asks before the server has begun waits for it
            return listener
        except OSError as error:
            listener.close()
            problem = error
    remedy = "Give another port, or None for the next that is free; and a host that is an address of this machine."
    raise ArgumentError("watch", options, f"cannot listen there ({problem})", remedy) from problem
