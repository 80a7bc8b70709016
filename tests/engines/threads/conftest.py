"""Short runs in compiled loops, which otherwise only long ones are worth."""

import pytest

from stalegrad.engines.threads import compiled_server
from stalegrad.engines.threads.compiled_server import CompiledServer


@pytest.fixture
def in_compiled_loops(monkeypatch):
    """Has every run that can use compiled loops use them; the list has those servers that did."""
    used, run = [], CompiledServer.run
    monkeypatch.setattr(compiled_server, "WORTH_COMPILING", 1)
    monkeypatch.setattr(CompiledServer, "run", lambda server: used.append(server) or run(server))
    return used
