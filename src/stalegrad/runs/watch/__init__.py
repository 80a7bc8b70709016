"""The live page of a run: Starlette and uvicorn in ``server.py``, all that the browser needs in ``page/``.

The page is handed aggregates by a :class:`~stalegrad.runs.observers.sampler.Sampler` and nothing else of a run, whether
it is made in this process (``sg.sample(..., watch=True)``) or kept in a folder (``stalegrad watch runs/x``). It is
closed by default: see ``access.py``.
"""
