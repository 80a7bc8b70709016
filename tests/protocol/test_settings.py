"""Settings that are 0 are settings."""

from stalegrad.protocol.settings import Settings


def test_a_setting_may_be_changed_to_zero_and_none_leaves_it():
    settings = Settings(steps=10, burn_in=3, seed=5, checkpoint_every=9.0)
    changed = settings.changed(burn_in=0, seed=None, checkpoint_every=0)
    assert (changed.burn_in, changed.seed, changed.checkpoint_every) == (0, 5, 0)


def test_zeros_that_differ_from_the_default_are_remembered():
    settings = Settings(steps=10, max_staleness=0, checkpoint_every=0.0)
    assert settings.table() == {"steps": 10, "max_staleness": 0, "checkpoint_every": 0.0}
    assert Settings.from_table(settings.table()) == settings
