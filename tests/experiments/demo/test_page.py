import base64
import re
from html.parser import HTMLParser

import pytest

pytestmark = pytest.mark.long

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and whether every tag is closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.attributes, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(demonstration):
    reader = Reader()
    source = (demonstration[0] / "report.html").read_text(encoding="utf-8")
    reader.feed(source)
    reader.close()
    assert reader.open == []
    return source, reader


def test_the_page_needs_nothing_but_itself(page):
    source, reader = page
    assert not re.search(r"https?://|//[a-z]+\.|@import|<script|<link|url\(", source)
    links = [value for _, name, value in reader.attributes if name in ("src", "srcset", "href", "action", "data")]
    assert [link for link in links if not link.startswith("data:image/png;base64,")] == ["run.html"]


def test_the_page_of_the_run_behind_it_tells_of_the_same_functions(demonstration):
    out, numbers, _, _ = demonstration
    source = (out / "run.html").read_text(encoding="utf-8")
    for name in ("log-likelihood of a test digit", "entropy of a prediction", "mean square of a weight"):
        assert source.count(name) >= 2
    assert f"{numbers['test_functions']['entropy']['rhat']:.3f}" in source


def test_the_pictures_on_the_page_are_the_saved_ones_with_words_for_who_cannot_see_them(page, demonstration):
    _, reader = page
    images = [value for tag, name, value in reader.attributes if (tag, name) == ("img", "src")]
    embedded = {base64.b64decode(image.partition(",")[2]) for image in images}
    assert embedded == {path.read_bytes() for path in demonstration[0].glob("*.png")}
    dark = [value for tag, name, value in reader.attributes if (tag, name) == ("source", "srcset")]
    assert len(dark) == len(images) == 4
    assert not set(dark) & set(images)
    assert sum((tag, name) == ("img", "alt") and bool(value) for tag, name, value in reader.attributes) == 4


def test_the_page_has_the_tables_the_numbers_and_no_hole(page, demonstration):
    source, reader = page
    numbers, said = demonstration[1:3]
    text = re.sub(r"\s+", " ", " ".join(reader.text))
    assert "$" not in source
    assert not re.search(r"\bnan\b|None|inf\b", text)
    for number in (
        f"{numbers['scores']['averaged']['accuracy']:.1%}",
        f"{numbers['sampling']['updates_per_second']:,.0f}",
    ):
        assert number in text
        assert number in said
    assert "1,297 images" in text
    assert "60 draws" in text
    for words in ("How to reproduce it", "What to try next", "--seed 5", "stalegrad 0.", "numpy 2"):
        assert words in text


def test_the_page_follows_the_readers_colours_and_prints(page):
    source, _ = page
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source


def test_the_recipe_on_the_page_replays_the_run(page, demonstration, monkeypatch):
    recipe = "".join(text for text in page[1].text if text.startswith("import stalegrad"))
    monkeypatch.chdir(demonstration[0])
    names = {}
    exec(recipe, names)
    assert names["run"].draws.shape == (2, 30, 650)


def test_a_run_with_one_worker_is_told_as_one():
    from stalegrad.experiments.demo.page import _staleness_sentence

    assert "τ = 0" in _staleness_sentence(1)
    assert "about 2 updates" in _staleness_sentence(3)
