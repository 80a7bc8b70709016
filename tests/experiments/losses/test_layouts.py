"""Which servers and workers the figures compare."""

from stalegrad.experiments.losses.layouts import FIGURES, Layout, with_controls


def test_the_figures_compare_what_the_paper_does():
    assert FIGURES["fig3"] == [Layout(1, w) for w in (1, 2, 4, 6, 9)]
    assert FIGURES["fig4"] == [Layout(s, 2) for s in (1, 3, 5, 7)]
    assert {(x.servers, x.workers) for x in FIGURES["supplement"]} == {(1, w) for w in range(1, 10)} | {
        (s, w) for s in (1, 3, 5, 7) for w in (1, 2, 4, 6)
    }


def test_controls_are_chains_of_their_own():
    layouts = with_controls(FIGURES["fig3"], ["fresh", "cold", "worker-momentum"])
    words = [chain.word for layout in layouts for chain in layout.chains(0, task="cifar10", lr=0.1)]
    assert len(set(words)) == len(words) == 5 + 1 + 3 + 3


def test_chains_and_repetitions_have_seeds_of_their_own():
    chains = [each for seed in range(3) for each in Layout(7, 2).chains(seed, task="a9a", lr=0.1)]
    assert len({each.run_seed for each in chains}) == 21
