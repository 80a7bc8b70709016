"""The picture of figures 3 and 4: which curves share a row, and how much of the panels they fill."""

import numpy as np
from matplotlib.figure import Figure

from stalegrad.experiments.losses import picture
from stalegrad.experiments.losses.layouts import FIGURES, with_controls


def numbers(layouts, loss, half_width, seeds=3):
    """As they are in the JSON of a figure, with the same curve everywhere."""
    curve = {"loss": loss, "half_width": half_width}
    rows = [
        {"name": str(layout), "servers": layout.servers, "workers": layout.workers, "control": layout.control,
         "average": curve, "current": curve, "predictive": curve, "seconds_per_iteration": 0.1}
        for layout in layouts
    ]  # fmt: skip
    axis = list(range(1, len(loss) + 1))
    return {"title": "x", "iterations": 2, "whole_iterations": 9, "seeds": seeds, "test_data": 500, "axis": axis,
            "round_axis": axis, "layouts": rows}  # fmt: skip


def panels_of(found):
    panels = Figure().subplots(1, 4)
    (title, layouts), *_ = picture._rows(found)
    picture._row(panels, found, title, layouts)
    return panels


def test_controls_are_drawn_in_a_row_of_their_own_beside_what_they_are_compared_with(tmp_path):
    found = numbers(with_controls(FIGURES["fig3"], ["fresh", "cold"]), [2.0, 1.0], [0.1, 0.1], seeds=1)
    rows = {title: [each["name"] for each in drawn] for title, drawn in picture._rows(found)}
    assert rows == {
        "one server": ["1 × 1", "1 × 2", "1 × 4", "1 × 6", "1 × 9", "1 × 9, fresh"],
        "one server, controls": ["1 × 4", "1 × 6", "1 × 9", "1 × 4, cold", "1 × 6, cold", "1 × 9, cold"],
    }
    picture.draw({"datasets": {"x": found}}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_panels_are_as_high_as_their_curves_and_not_as_bands():
    for panel in panels_of(numbers(FIGURES["fig3"], [2.0, 1.0], [50.0, 60.0])):
        assert panel.get_ylim() == (0.9, 2.1)
        assert len(panel.collections) == 5


def test_two_repetitions_have_no_bands():
    """By Student's t a band of two is 12.7 standard errors broad on either side."""
    assert not any(
        panel.collections for panel in panels_of(numbers(FIGURES["fig3"], [2.0, 1.0], [50.0, 60.0], seeds=2))
    )


def test_labels_of_logarithmic_axes_have_the_digits_they_need():
    panel = panels_of(numbers(FIGURES["fig3"], [2.0, 0.05], [0.1, 0.01]))[0]
    assert panel.get_yscale() == "log"
    assert [panel.yaxis.get_major_formatter()(value, 0) for value in (0.05, 0.1, 2.0)] == ["0.05", "0.1", "2"]
    low, high = panel.get_ylim()
    assert np.isclose(low, 0.05 / 40**0.1)
    assert np.isclose(high, 2 * 40**0.1)
