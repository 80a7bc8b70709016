"""A small task."""

import pytest

from .small_task import LENGTH, logistic_model, use


@pytest.fixture
def small(monkeypatch):
    """a9a's task with 300 rows, and at most 60 iterations."""
    return use(logistic_model(300), monkeypatch, iterations=LENGTH)
