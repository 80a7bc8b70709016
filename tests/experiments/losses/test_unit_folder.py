"""Units of an experiment are files of their own: what was done before an interruption is not done again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit

SMALL_UNIT = {"task": "a9a", "iterations": 40, "points": 4, "lr": 0.01}


def unit(workers=1, chain=0, seed=0, **changes):
    return Unit(workers=workers, chain=chain, seed=seed, **(SMALL_UNIT | changes))


class Counting:
    """Executes units and counts them; one may be told to fail."""

    def __init__(self, fail_at=None):
        self.executed, self.fail_at = [], fail_at

    def __call__(self, each):
        if len(self.executed) == self.fail_at:
            raise KeyboardInterrupt
        self.executed.append(each)
        return {"loss": [1.0] * each.points, "array": np.arange(3.0)}


def name_of(each):
    """For other processes."""
    return {"name": each.name}


class TestUnitFolder:
    wanted = tuple(unit(workers=w) for w in (1, 2, 4))

    def test_what_was_done_before_an_interruption_is_not_done_again(self, tmp_path):
        interrupted, second = Counting(fail_at=2), Counting()
        with pytest.raises(KeyboardInterrupt):
            UnitFolder(tmp_path, interrupted, 1).results(self.wanted, lambda *_: None)
        found = UnitFolder(tmp_path, second, 1).results(self.wanted, lambda *_: None)
        assert [each.workers for each in (*interrupted.executed, *second.executed)] == [4, 2, 1]
        assert set(found) == set(self.wanted)

    def test_arrays_are_kept_beside_the_numbers(self, tmp_path):
        place = UnitFolder(tmp_path, Counting(), 1)
        assert "array" not in place.results(self.wanted, lambda *_: None)[self.wanted[0]]
        assert_allclose(place.arrays(self.wanted[0], "array"), [0, 1, 2])

    def test_other_processes_can_execute_units(self, tmp_path):
        reports = []
        found = UnitFolder(tmp_path, name_of, 2).results(self.wanted, lambda what, share: reports.append(share))
        assert {each: numbers["name"] for each, numbers in found.items()} == {each: each.name for each in self.wanted}
        assert reports[-1] == 1
