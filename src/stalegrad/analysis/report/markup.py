"""Pieces of HTML: pages that need nothing but themselves, follow the reader's light or dark screen, and print.

Arguments called ``html`` go into the page as they are; all others are text and are escaped.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from stalegrad._internal.look import stylesheet
from stalegrad.analysis.report.text_table import TextTable


class Fact(NamedTuple):
    """A number to be seen first, and what it is."""

    number: str
    what: str
    warn: bool = False


def page(title: str, html: str) -> str:
    """A whole HTML page with its styles, which needs no other file."""
    source = files(__package__)
    template = Template(source.joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), style=stylesheet(), body=html.strip())


def section(name: str, title: str, *html: str) -> str:
    """A heading that links can lead to, and what comes below it."""
    return "\n".join([f'<h2 id="{escape(name)}">{escape(title)}</h2>', *filter(None, html)])


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph; nothing if there is nothing to say."""
    opening = f'<p class="{escape(kind)}">' if kind else "<p>"
    return f"{opening}{escape(text, quote=False)}</p>" if text else ""


def facts(shown: Iterable[Fact]) -> str:
    """Numbers side by side, each with a caption below it."""
    tiles = [
        f"<div{' class=warn' * each.warn}><b>{escape(each.number)}</b><span>{escape(each.what)}</span></div>"
        for each in shown
    ]
    by = "four" if len(tiles) % 4 == 0 else "three"
    return f'<div class="facts {by}">\n' + "\n".join(tiles) + "\n</div>"


def table(content: TextTable) -> str:
    """A table that scrolls by itself where the screen is narrow."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in content.columns)
    body = "\n".join(
        f"<tr{' class=main' * (index == content.emphasised)}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for index, row in enumerate(content.rows)
    )
    caption = f"<caption>{escape(content.title)}</caption>\n" if content.title else ""
    return (
        f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'
        f"{paragraph(content.note, 'note')}"
    )


def definitions(pairs: Mapping[str, str]) -> str:
    """Words and what they stand for; pairs without a meaning are left out."""
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(text, quote=False)}</dd>" for name, text in pairs.items() if text)
    return '<dl class="words">\n' + "\n".join(rows) + "\n</dl>"


class Versions(NamedTuple):
    """A picture as PNG files: for light and dark screens, and the same again for narrow ones."""

    light: bytes
    dark: bytes
    narrow_light: bytes
    narrow_dark: bytes


def picture(light: bytes, dark: bytes, alternative: str) -> str:
    """A PNG and its twin for dark screens, with words for who cannot see it."""
    return (
        f'<picture><source media="screen and (prefers-color-scheme: dark)" srcset="{_uri(dark)}">'
        f'<img src="{_uri(light)}" alt="{escape(alternative)}"></picture>'
    )


def picture_of_any_width(versions: Versions, alternative: str) -> str:
    """A picture that is drawn anew for narrow screens, so that its words stay legible."""
    narrow, dark = "screen and (max-width: 40rem)", "(prefers-color-scheme: dark)"
    return (
        f'<picture class="fits"><source media="{narrow} and {dark}" srcset="{_uri(versions.narrow_dark)}">'
        f'<source media="{narrow}" srcset="{_uri(versions.narrow_light)}">'
        f'<source media="screen and {dark}" srcset="{_uri(versions.dark)}">'
        f'<img src="{_uri(versions.light)}" alt="{escape(alternative)}"></picture>'
    )


def figure(html_picture: str, html_caption: str) -> str:
    """A picture and how to read it."""
    return f"<figure>\n{html_picture}\n<figcaption>{html_caption}</figcaption>\n</figure>"


def code(text: str) -> str:
    """Lines of code or of a terminal, as they are."""
    return f"<pre><code>{escape(text, quote=False)}</code></pre>"


def folded(summary: str, html: str) -> str:
    """A part of the page that opens on a click."""
    return f"<details><summary>{escape(summary, quote=False)}</summary>\n{html}\n</details>"


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"
