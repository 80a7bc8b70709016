"""The list of defects follows the source: all can still be put in. `make mutate` runs the tests on them."""

import pytest

from .defects import ROOT, Defect, DoesNotApply, read

DEFECTS = read()
AREAS = {"protocol", "kernels", "noise", "estimates", "store", "engines"}


def test_every_defect_can_still_be_put_in():
    sources, stale = {}, []
    for defect in DEFECTS:
        path = ROOT / "src" / "stalegrad" / defect.file
        if path not in sources:
            sources[path] = path.read_text() if path.is_file() else ""
        try:
            defect.applied(sources[path])
        except DoesNotApply as reason:
            stale.append(str(reason))
    assert stale == [], "change the entries in tests/mutations/*.toml along with the source"


def test_the_tests_that_ought_to_notice_are_there():
    named = {test.partition("::")[0] for defect in DEFECTS for test in defect.tests}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_area_is_covered_and_no_defect_twice():
    assert {defect.area for defect in DEFECTS} >= AREAS
    assert len({defect.digest for defect in DEFECTS}) == len(DEFECTS)
    assert len([defect for defect in DEFECTS if not defect.equivalent]) >= 150
    assert [defect.name for defect in DEFECTS if len(defect.harm.split()) < 4] == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [("y = 3", "y = 4", "0 times"), ("x", "y", "2 times"), ("= 1", "= = 1", "not Python"), ("= 1", "=  1", "nothing")],
)
def test_a_defect_that_is_none_is_refused(before, after, reason):
    defect = Defect(area="", file="a.py", before=before, after=after, harm="", tests=())
    with pytest.raises(DoesNotApply, match=reason):
        defect.applied("x = 1\nprint(x)\n")
