"""The table of a soak and its program's arguments."""

import json
from pathlib import Path

from .program import arguments, turns
from .tally import Tally, as_json, broken, table


def tallies():
    first, second = Tally(runs=3, replays=3, equal=3, gradients=12_000), Tally(runs=1, replays=2, equal=1, lost=7)
    first.injected.update({"worker killed": 2, "server killed": 1})
    first.survived.update({"worker killed": 2, "server killed": 1})
    second.injected.update(["server killed"])
    second.broken.append("7 draws are lost [somewhere]")
    first.grew({"resident": 3.0, "descriptors": 0.0, "threads": 0.0})
    first.grew({"resident": -3.0, "descriptors": 0.0, "threads": 0.0})
    return {"processes": first, "threads": second}


def test_the_table_says_it_all():
    lines = {
        line.rpartition("  ")[0].split("  ")[0].strip(): line.split()[-2:] for line in table(tallies()).splitlines()
    }
    assert lines["worker killed"] == ["2/2", "–"]
    assert lines["server killed"] == ["1/1", "0/1"]
    assert lines["faults survived"] == ["3/3", "0/1"]
    assert lines["draws lost"] == ["0", "7"]
    assert lines["replays with the same bits"] == ["3/3", "1/2"]
    assert lines["promises broken"] == ["0", "1"]
    assert "+3.0" in lines["memory, kB more a run"][0]
    assert table(tallies()).splitlines()[0].split() == ["processes", "threads"]


def test_json_has_the_same():
    read = json.loads(json.dumps(as_json(tallies(), seed=3)))
    assert read["seed"] == 3
    assert read["engines"]["threads"]["lost"] == 7
    assert read["engines"]["processes"]["survived"] == {"worker killed": 2, "server killed": 1}


def test_what_broke_names_its_engine():
    assert broken(tallies()) == ["threads: 7 draws are lost [somewhere]"]


def test_every_engine_has_as_many_turns_as_the_others():
    asked = arguments(["--minutes", "60", "--out", "x"])
    assert asked.out == Path("x")
    order = turns(asked.minutes, asked.engines)
    assert {order.count(engine) for engine in asked.engines} == {round(10 / 4)}  # ten minutes an engine, four a turn
    assert turns(0.5, ["ray"]) == ["ray"]
