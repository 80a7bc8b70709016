"""The MPI engine under real ``mpiexec``: conformance, commands, faults, stores, idle ranks."""

import signal

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.mpi.layout import Layout
from stalegrad.engines.mpi.packet import Packet
from stalegrad.runs.store import inspect
from stalegrad.testing import FaultyModel, small_model

from .mpi_jobs import Ranks, mpi

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
JOB = """
steps = 1_000_000
thin = 10
checkpoint_every = 0.2
servers = 2
[model]
function = "slow:model"
[kernel]
name = "SGHMC"
step_size = 0.02
friction = 5.0
[engines.mpi]
patience = 60.0
"""
MODULE = """
from pathlib import Path
from stalegrad.testing import FaultyModel

def model():
    return FaultyModel(Path("calls"), {}, seconds=0.005)
"""

pytestmark = pytest.mark.usefixtures("compiled")


def test_the_conformance_suite_and_bit_exact_replay_of_every_shape(tmp_path):
    status, reported, err = mpi(15, "conformance", tmp_path)
    assert status == 0, err
    assert reported[0] == {"ranks": 5, "suite": "kept"}
    shapes = [{"ranks": s + s * w, "servers": s, "workers": w, "events": 0} for s in (1, 3) for w in (1, 2, 4)]
    assert reported[1:] == shapes


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_hostile_network_costs_time_and_nothing_else(ranks, tmp_path):
    """Also where a rank works for two servers; and a fault of a worker is one, however often it has to be reported."""
    status, reported, err = mpi(ranks, "hostile", tmp_path)
    assert status == 0, err
    (told,) = reported
    assert told["same"]
    assert set(told["steps"]) == {100}
    assert set(told["twice"]) == {0}
    assert told["kinds"] == ["raised", "refused"]
    assert min(told["timing"][name] for name in ("damaged", "repeated", "sent_again")) > 0


def test_gradients_that_come_fast_are_dealt_with_in_compiled_code(tmp_path):
    """Most of them; and what is out of the ordinary is seen to by the server loop as ever."""
    status, reported, err = mpi(3, "express", tmp_path)
    assert status == 0, err
    for told, kinds in zip(reported, ([], [], ["raised", "refused", "refused"]), strict=True):
        assert told["kinds"] == kinds
        assert told["counted"] == kinds.count("refused")
        assert (told["steps"], told["twice"], told["kept"]) == (3000, 0, 1000)
        assert told["same"]
        assert told["bound"]
        assert told["dealt_with"] > 0
        assert told["turned"] > 0


def test_every_architecture_replays_bit_for_bit(tmp_path):
    status, reported, err = mpi(4, "architectures", tmp_path)
    assert status == 0, err
    names = ["Downpour", "Downpour", "WorkerNoise", "Elastic", "VisitingShards", "Consensus"]
    assert reported == [{"name": name, "workers": 1, "replayed": True} for name in names]


@pytest.mark.long
def test_adapters_of_a_language_model_are_sampled_resumed_and_replayed(tmp_path):
    pytest.importorskip("peft")
    status, reported, err = mpi(3, "lora", tmp_path)
    assert status == 0, err
    assert reported == [{"workers": 2, "steps": 60, "moved": True, "same": True, "events": 0}]


def test_a_job_file_is_run_interrupted_and_resumed_on_other_ranks(tmp_path):
    """``mpiexec stalegrad run``, Ctrl-C, ``mpiexec stalegrad resume``."""
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "slow.py").write_text(MODULE)
    job = Ranks(4, ["run", "job.toml", "--engine", "mpi"], tmp_path)
    store = tmp_path / "runs" / "job"
    job.until(lambda: store.exists() and min(inspect(store).updates) > 20, "the 20th update of both chains")
    job.process.send_signal(signal.SIGINT)  # mpiexec passes it on
    status, out, err = job.end(as_facts=False)
    assert status == 130, err
    assert out.count("The run is in runs/job") == 1
    info = inspect(store)
    assert info.state == "interrupted"
    assert info.draws == [updates // 10 for updates in info.updates]
    assert info.record.settings.workers == 1  # of each of two servers
    assert info.record.engine == {
        "name": "mpi", "patience": 60.0, "restarts": 3, "everywhere": False, "heartbeat": 10.0, "update_threads": 1
    }  # fmt: skip
    goal = max(info.updates) + 50
    status, _, err = mpi(3, ["resume", "runs/job", "--steps", str(goal)], tmp_path)
    assert status == 0, err
    run = sg.load(store)
    assert [chain.steps for chain in run.trace.chains] == [goal] * 2
    again = sg.replay(run.trace, small_model(), KERNEL)
    np.testing.assert_array_equal(again.draws, run.draws)
    assert [path.name for path in store.parent.iterdir()] == ["job"]


def assert_valid(store, state, model):
    """A store that can be read, says how the run ended, replays bit for bit, and can be resumed."""
    assert inspect(store).state == state
    run = sg.load(store)
    assert min(chain.steps for chain in run.trace.chains) > 0
    for chain, draws in zip(sg.replay(run.trace, small_model(), KERNEL).chain_draws, run.chain_draws, strict=True):
        np.testing.assert_array_equal(chain, draws)
    goal = max(chain.steps for chain in run.trace.chains) + 10
    longer = sg.resume(store, model, KERNEL, steps=goal, engine="inline", progress=False)
    assert [chain.steps for chain in longer.trace.chains] == [goal] * len(longer.trace.chains)


def test_an_exception_on_a_servers_rank_ends_the_job_with_its_traceback_and_a_valid_store(tmp_path):
    status, reported, err = mpi(3, "broken_server", tmp_path)
    assert status != 0
    assert reported == []
    assert "LookupError: unforeseen" in err
    assert "rank 1, the server of chain 1, has failed" in err
    assert "in broken" in err  # the line of the traceback
    assert_valid(tmp_path / "run", "failed", small_model())


def test_kill_9_of_a_rank_ends_the_job_and_leaves_a_valid_store(tmp_path):
    status, reported, _ = mpi(2, "killed_worker", tmp_path)
    assert status != 0
    assert reported == []
    assert_valid(tmp_path / "run", "killed", FaultyModel(tmp_path / "more", {}, seconds=0.0))


def test_a_rank_that_fails_before_sampling_ends_the_job(tmp_path):
    status, _, err = mpi(2, "missing_data", tmp_path)
    assert status != 0
    assert "FileNotFoundError: the data of rank 1" in err
    assert "rank 1 on " in err


def test_too_few_ranks_are_refused_once_and_clearly(tmp_path):
    status, _, err = mpi(2, "too_few", tmp_path)
    assert status != 0
    assert err.count("servers=2: needs at least 3 ranks with engine='mpi'") == 1
    assert "there are 2. Start it with mpiexec -n 3" in err


def test_ranks_that_disagree_are_refused_on_all_of_them(tmp_path):
    status, reported, err = mpi(2, "unlike", tmp_path)
    assert status == 0, err
    assert sorted(line["rank"] for line in reported) == [0, 1]
    assert {line["refused"].partition(" than ")[0] for line in reported} == {
        "engine='mpi': ranks [1] were called with another model, seed or number of servers"
    }


def test_a_rank_that_hangs_is_left_behind_and_only_rank_0_goes_on(tmp_path):
    status, reported, err = mpi(3, "hung", tmp_path)
    assert status == 0, err
    assert reported[0] == {"rank": 0, "kinds": ["hung"], "steps": 100, "same": True}
    assert "they ended with the first sg.sample" in reported[1]["refused"]
    assert len(reported) == 2
    assert "of their time in gradients" in err  # the verdict on the run
    assert "some workers do not answer; the run is complete" in err


def test_idle_ranks_leave_the_processor_to_others(tmp_path):
    """While all gradients sleep, no rank uses a tenth of a core."""
    status, reported, err = mpi(3, "idle", tmp_path)
    assert status == 0, err
    assert sorted(line["rank"] for line in reported) == [0, 1, 2]
    assert all(line["passed"] > 0.5 for line in reported)
    assert all(line["share"] < 0.10 for line in reported), reported


@pytest.mark.parametrize(("servers", "ranks"), [(1, 2), (1, 9), (2, 4), (2, 7), (3, 4), (3, 5), (5, 7), (4, 40)])
def test_every_rank_has_one_part_and_every_server_a_worker(servers, ranks):
    layout = Layout(servers, ranks)
    memberships = [(rank, membership) for rank in range(ranks) for membership in layout.memberships_of(rank)]
    assert {rank for rank, _ in memberships} == set(range(servers, ranks))
    for s in range(servers):
        mine = [rank for rank, (server, _) in sorted(memberships, key=lambda each: each[1]) if server == s]
        assert mine == layout.workers_of(s)
        assert 1 <= len(mine) <= layout.workers
        assert layout.workers - len(mine) <= 1
        assert sorted(number for _, (server, number) in memberships if server == s) == list(range(len(mine)))


def test_a_traceback_that_is_too_long_keeps_its_ends():
    packet = Packet(3, np.float32)
    packet.set_text("first" + "x" * 100_000 + "last")
    assert packet.text.startswith("first")
    assert packet.text.endswith("last")
    assert len(packet.text.encode()) <= 16_000
    assert packet.vector.ctypes.data % 64 == 0


@pytest.mark.parametrize("settings", [{"patience": 0.0}, {"restarts": -1}, {"heartbeat": 0.0}])
def test_settings_are_checked_before_mpi_starts(settings):
    with pytest.raises(sg.ArgumentError):
        sg.engines.MPI(**settings)
