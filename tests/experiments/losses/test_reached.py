"""How much of a figure is shown, of chains that are so long."""

from stalegrad.experiments.losses.layouts import Goal, Layout
from stalegrad.experiments.losses.reached import ends_of_repetitions, longer_alone, most_repeated

from .small_task import record


def ends(*lengths, **lost):
    layouts, goals = [Layout(1, 1)], [Goal(5000, 3)]
    records = {
        layouts[0].chains(seed, task="a9a", lr=0.1)[0]: record([1.0], at=(length,), **(lost if seed == 1 else {}))
        for seed, length in enumerate(lengths)
    }
    return ends_of_repetitions(layouts, records, goals, lambda layout, seed: layout.chains(seed, task="a9a", lr=0.1))


def test_a_figure_is_as_long_as_two_repetitions_of_all_its_layouts():
    assert most_repeated(ends(5000, 5000, 5000)) == (5000, 3)
    assert most_repeated(ends(5000, 1400, 1100)) == (1000, 3)
    assert most_repeated(ends(5000, 2000)) == (2000, 2)
    assert most_repeated(ends(730)) == (500, 1)
    assert most_repeated(ends()) is None
    assert most_repeated(ends(9000, 9000, 9000)) == (5000, 3)  # chains of a longer figure


def test_what_diverged_is_as_long_as_it_gets():
    assert most_repeated(ends(9000, 7000, 9000, diverged="at 7,000")) == (5000, 3)
    assert most_repeated(ends(5000, 70, 5000, diverged="at 70")) == (5000, 3)


def test_what_the_first_repetition_has_beyond_is_shown_alone():
    assert longer_alone(ends(5000, 1400, 1100)) == (5000, 1)
    assert longer_alone(ends(5000, 5000, 5000)) is None
    assert longer_alone(ends(1400, 5000, 5000)) is None  # one from which to read would be another seed's
    assert longer_alone(ends(730)) is None
    assert longer_alone(ends()) is None
