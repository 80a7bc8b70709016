"""The plan of a soak: repeatable, complete, and with sessions that can be carried out."""

from itertools import islice

import pytest

from . import plan as p
from .model import REQUESTS, SoakModel


def some(engine, seed=3, turn=0, runs=40):
    return list(islice(p.runs(engine, seed, turn), runs))


@pytest.mark.parametrize("engine", p.KINDS)
def test_the_seed_and_the_turn_decide(engine):
    assert some(engine) == some(engine)
    assert some(engine) != some(engine, seed=4)
    assert some(engine) != some(engine, turn=1)


def test_engines_have_plans_of_their_own():
    assert [run.seed for run in some("mpi")] != [run.seed for run in some("ray")]


@pytest.mark.parametrize("engine", p.KINDS)
def test_every_kind_comes_as_often_as_the_others(engine):
    kinds = [fault.kind for run in some(engine) for fault in run.faults]
    counts = [kinds.count(kind) for kind in p.KINDS[engine]]
    assert sum(counts) == len(kinds)
    assert min(counts) > 0
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("engine", p.KINDS)
def test_a_session_ends_with_the_fault_that_ends_it_and_every_run_with_one_that_none_ends(engine):
    resumed = 0
    for run in some(engine):
        *ended, last = run.sessions()
        assert sum([*ended, last], ()) == run.faults
        assert len(ended) <= 1
        for session in ended:
            assert session[-1].kind in p.ENDING
            resumed += 1
        assert not {fault.kind for fault in last} & p.ENDING
        assert sum(fault.kind in p.DISK for fault in run.faults) <= 1  # a run has one way to take a full disk
    assert resumed > 5


def test_a_request_is_taken_once(tmp_path):
    SoakModel.prepare(tmp_path)
    model = SoakModel(tmp_path, seconds=0.0)
    theta, indices = model.initial(), model.minibatches.draw(0, 0, 0, 0)
    good = model.gradient(theta, indices)
    for name in REQUESTS[:3]:
        (tmp_path / "requests" / name).touch()
        if name == "raise":
            with pytest.raises(RuntimeError, match="injected"):
                model.gradient(theta, indices)
        else:
            assert (model.gradient(theta, indices) == good).all() == (name == "slow")
        assert not list((tmp_path / "requests").iterdir())
    assert (model.gradient(theta, indices) == good).all()
    assert (tmp_path / "calls").stat().st_size == 4  # the one that raised has not come to it
    assert len(list((tmp_path / "computing").iterdir())) == 1
