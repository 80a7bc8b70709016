"""One look: colours of pages and pictures, and cards whose text is text."""

import re

import pytest

from stalegrad._internal.look import stylesheet
from stalegrad._internal.look.card import Card
from stalegrad.analysis.plots import DARK, LIGHT

NAMES = {
    "paper": "paper",
    "ink": "ink",
    "soft": "soft",
    "faint": "faint",
    "mark": "strong",
    "weak": "weak",
    "good": "right",
}


@pytest.mark.parametrize(("theme", "part"), [(LIGHT, 0), (DARK, 1)])
def test_pages_and_pictures_have_the_same_colours(theme, part):
    blocks = re.findall(r":root \{(.*?)\}", stylesheet(), re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[part]))
    assert {name: colours[name] for name in NAMES} == {name: getattr(theme, own) for name, own in NAMES.items()}
    assert [colours[f"chain-{k}"] for k in range(6)] == list(theme.chains)


def test_text_of_a_card_is_text():
    evil = "<script>alert(1)</script>"
    card = Card(evil, evil, [(evil, evil)], 0.5, [evil], [[evil]], [("warning", evil)], evil).html()
    assert evil not in card
    assert card.count("&lt;script&gt;") == 8
    assert "width:50.0%" in card


def test_what_is_empty_is_left_out():
    card = Card("x", notes=[("", "")]).html()
    body = card.partition("</style>")[2]
    assert body == '<div class="sg-card"><div><span class="sg-title">x</span></div></div>'
