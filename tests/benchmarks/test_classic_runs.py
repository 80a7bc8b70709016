"""Some of the classic posteriors with nothing set: right, or warned of. The benchmark has them all."""

import pytest

pytestmark = pytest.mark.long

RIGHT = ("linear_collinear", "student_t", "ordinal")
TREACHEROUS = ("groups_centred", "mixture_unordered")


@pytest.fixture
def sample(benchmark_module):
    script = benchmark_module("classic_posteriors")
    return lambda name, *words: script.sample(name, script.arguments(["--steps", "5000", *words]))


def said(found):
    return {key: found.get(key) for key in ("verdict", "mean", "sd", "serious", "problem", "warmup")}


@pytest.mark.parametrize("name", RIGHT)
def test_the_shortest_call_is_right(sample, name):
    found = sample(name)
    assert found["verdict"] == "right", said(found)


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_eight_stale_workers_are_not_wrong_in_silence(sample, name):
    """They have fewer effective draws, of which 5,000 steps may be too few to call them right."""
    found = sample(name, "--workers", "8", "--engine", "inline")
    assert found["verdict"] in {"right", "imprecise", "warned"}, said(found)


@pytest.mark.parametrize("name", ["linear_collinear", "ordinal"])
def test_a_start_far_away_does_not_matter(sample, name):
    found = sample(name, "--far")
    assert found["verdict"] == "right", said(found)


@pytest.mark.filterwarnings("default::RuntimeWarning")  # of overflows in the neck of the funnel
@pytest.mark.parametrize("name", TREACHEROUS)
def test_a_funnel_and_two_modes_are_not_passed_over_in_silence(sample, name):
    found = sample(name)
    assert found["verdict"] in {"warned", "refused"}, said(found)
