"""The one look: the style sheet of the report of a run, the demonstration's page, the live page and notebooks.

Its colours are those of the pictures, too; a test holds the two together.
"""

from importlib.resources import files


def stylesheet() -> str:
    """The whole style sheet, as it goes into a page."""
    return files(__package__).joinpath("look.css").read_text(encoding="utf-8").strip()
