"""What notebooks show of an object: a card of HTML in the one look, all of whose text is escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Literal

Kind = Literal["", "good", "warning", "serious", "soft"]


@dataclass
class Card:
    """A title, numbers, a table and sentences, in this order.

    Args:
        title: what it is.
        aside: more of the same line.
        facts: numbers to be seen first, each with what it is.
        progress: a share, shown as a bar; None for no bar.
        headings: of the table.
        rows: of the table.
        notes: sentences, each with its kind.
        code: lines of code at the end.
    """

    title: str
    aside: str = ""
    facts: Sequence[tuple[str, str]] = ()
    progress: float | None = None
    headings: Sequence[str] = ()
    rows: Iterable[Sequence[str]] = ()
    notes: Sequence[tuple[Kind, str]] = field(default_factory=list)
    code: str = ""

    def html(self) -> str:
        """The card with its styles, which need no other file and change nothing else of the page."""
        aside = f' <span class="sg-soft">{_text(self.aside)}</span>' if self.aside else ""
        pieces = [f'<div><span class="sg-title">{_text(self.title)}</span>{aside}</div>']
        if self.progress is not None:
            pieces.append(
                f'<div class="sg-bar"><i style="width:{100 * min(1.0, max(0.0, self.progress)):.1f}%"></i></div>'
            )
        if self.facts:
            tiles = "".join(
                f"<div><b>{_text(number)}</b><span>{_text(what)}</span></div>" for number, what in self.facts
            )
            pieces.append(f'<div class="sg-facts">{tiles}</div>')
        rows = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in self.rows]
        if rows:
            head = "".join(f"<th>{_text(cell)}</th>" for cell in self.headings)
            body = "".join(f"<tr>{row}</tr>" for row in rows)
            pieces.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        pieces += [f'<p class="{f"sg-{kind}" if kind else ""}">{_text(text)}</p>' for kind, text in self.notes if text]
        if self.code:
            pieces.append(f"<pre>{_text(self.code)}</pre>")
        style = files(__package__).joinpath("notebook.css").read_text(encoding="utf-8").strip()
        return f'<style>{style}</style><div class="sg-card">{"".join(pieces)}</div>'


def _text(text: str) -> str:
    return escape(text, quote=True)
