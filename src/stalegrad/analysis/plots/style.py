"""Colours, figures and axes that all pictures share. Figures are made without pyplot: nothing is left behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from textwrap import wrap
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from stalegrad._internal.text import printable

_DPI = 160


@dataclass(frozen=True)
class Theme:
    """Colours, for light and for dark screens.

    Args:
        paper: the ground.
        ink: text and the lines that matter most.
        soft: text that matters less.
        faint: axes and borders.
        shade: grounds that are a little stronger than the paper.
        strong: the thing to look at.
        weak: the thing it is compared with.
        right: what is known to be true.
        chains: one colour a chain. With more chains than colours, which no legend could tell apart, all get the first.
        image: name of the colour map for images.
    """

    paper: str
    ink: str
    soft: str
    faint: str
    shade: str
    strong: str
    weak: str
    right: str
    chains: tuple[str, ...]
    image: str

    def chain(self, index: int, count: int) -> str:
        """The colour of chain ``index`` of so many."""
        return self.chains[index] if count <= len(self.chains) else self.chains[0]

    def label(self, index: int, count: int) -> str:
        """What the legend says of chain ``index`` of so many: once for all where they share a colour."""
        return f"chain {index}" if count <= len(self.chains) else f"{count} chains" if index == 0 else ""

    @property
    def heat(self) -> LinearSegmentedColormap:
        """From nearly nothing to a lot."""
        return LinearSegmentedColormap.from_list("heat", [self.shade, self.strong])


LIGHT = Theme(
    paper="#ffffff", ink="#1f2430", soft="#5b6373", faint="#c9ced8", shade="#e4e9f1", strong="#1d5fa8",
    weak="#d07a1f", right="#2b8a57",
    chains=("#3b7dc4", "#a06cd0", "#3f9e8f", "#d07a1f", "#c8516a", "#8a8f2a"), image="Greys",
)  # fmt: skip
DARK = Theme(
    paper="#171a21", ink="#e3e6ec", soft="#9aa3b2", faint="#3d4452", shade="#2a303c", strong="#7db4f0",
    weak="#f0ad63", right="#63c793",
    chains=("#6ba6e8", "#bd93ea", "#66c2b4", "#f0ad63", "#ec8aa0", "#c3c860"), image="gray",
)  # fmt: skip


percent = FuncFormatter(lambda share, _: f"{100 * share:g}%")
"""Of an axis of shares."""


class Picture(Figure):
    """A matplotlib figure that shows itself in notebooks, with pyplot or without."""

    def _repr_png_(self) -> bytes:
        return png(self)


def picture(width: float, height: float, theme: Theme = LIGHT) -> Picture:
    """An empty figure, its size in inches."""
    return Picture(figsize=(width, height), layout="constrained", facecolor=theme.paper)


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file, with the 256 colours that serve it best: a third of the size."""
    pixels, file = BytesIO(), BytesIO()
    figure.savefig(pixels, format="rgba", dpi=_DPI, facecolor=figure.get_facecolor())
    width, height = (int(inches * _DPI) for inches in figure.get_size_inches())
    image = Image.frombytes("RGBA", (width, height), pixels.getvalue()).convert("RGB")
    image.quantize(256, Image.Quantize.MEDIANCUT).save(file, "PNG", dpi=(_DPI, _DPI))
    return file.getvalue()


def style_axes(axes: Axes, theme: Theme) -> None:
    """Give the axes the colours of the theme, without a frame."""
    axes.set_facecolor(theme.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.faint)
    axes.tick_params(colors=theme.ink, labelsize=9, which="both")
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)


def set_title(axes: Axes, title: str, theme: Theme) -> None:
    """A title over the left edge, in lines that fit. Dollar signs are dollar signs."""
    axes.set_title("\n".join(wrap(printable(title), 46)), loc="left", fontsize=10, color=theme.ink, parse_math=False)


def plain_label(text: str) -> str:
    """A label for a legend, in which dollar signs are dollar signs and not the borders of mathematics."""
    return printable(text).replace("$", r"\$")


def count_axis(axes: Axes) -> None:
    """Whole numbers along x, with separators of thousands."""
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def show_message(axes: Axes, text: str, theme: Theme) -> None:
    """A sentence in place of a picture that cannot be drawn."""
    axes.text(
        0.5, 0.5, printable(text), transform=axes.transAxes, ha="center", va="center", color=theme.soft, fontsize=9,
        parse_math=False,
    )  # fmt: skip
    axes.set(xticks=[], yticks=[])


def legend_above(figure: Figure, axes: Sequence[Axes], theme: Theme) -> None:
    """One legend for all axes, above them; a label that appears in several appears once."""
    entries: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        found = zip(map(_sample, handles), labels, strict=True)
        entries |= {label: handle for handle, label in found if label not in entries}
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside upper right", frameon=False, fontsize=9,
            labelcolor=theme.ink, ncols=_columns([len(label) for label in entries], figure.get_figwidth()),
        )  # fmt: skip


def _sample(handle: Artist) -> Artist:
    """What stands for an artist in the legend of another figure: matplotlib before 3.10 refuses filled areas there."""
    if isinstance(handle, PolyCollection):
        colours: Any = handle.get_facecolor()
        return Patch(facecolor=colours[0], edgecolor="none")
    return handle


def _columns(lengths: Sequence[int], width: float) -> int:
    """How many columns a legend with labels of so many letters may have in so many inches."""
    inches = [0.08 * (length + 7) for length in lengths]  # the letters, and the sample of a line with its room
    return len(inches) if sum(inches) <= width else max(1, int(width / max(inches)))
