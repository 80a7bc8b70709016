"""Formulas as MathML, which browsers draw themselves: no script, no font and no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, unichar2tex
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

SIZES = re.compile(r"\\[bB]igg?[lr]\b")
MACRON = re.compile("(.)\u0304")


def mathml(tex: str, *, block: bool) -> str:
    """MathML of a formula, in which letters and signs may stand for themselves."""
    tex = MACRON.sub(r"\\bar{\1}", SIZES.sub("", tex)).replace("·", r"\cdot ")
    return tex2mathml(" ".join(tex.translate(unichar2tex.uni2tex_table).split()), as_block=block)


def visit(translator: Any, node: nodes.Element, *, block: bool) -> None:
    """Put the formula on the page."""
    try:
        shown = mathml(node.astext(), block=block)
    except MathError as error:
        logger.warning("cannot draw the formula %s: %s", node.astext(), error, location=node)
        shown = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(f'<div class="formula">{shown}</div>' if block else shown)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer and choose it."""
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: visit(translator, node, block=False), None),
        (lambda translator, node: visit(translator, node, block=True), None),
    )
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
