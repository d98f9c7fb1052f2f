"""What `bench.flames` draws of stacks."""

from __future__ import annotations

from collections import Counter

from bench.flames import Box, boxes_of, drawn

STACKS = Counter({("main", "read"): 60, ("main", "write"): 39, ("main",): 900, ("other",): 1})


def test_FL01_the_width_of_a_box_is_its_share_of_the_samples():
    """A function is as wide as its share, above what called it; what is hardly ever met is left out."""
    assert [
        Box("main", 0, 0.0, 0.999),
        Box("read", 1, 0.0, 0.06),
        Box("write", 1, 0.06, 0.099),
    ] == [Box(name, depth, round(begin, 3), round(end, 3)) for name, depth, begin, end in boxes_of(STACKS)]


def test_FL02_a_picture_names_each_function_with_its_share():
    """A picture is whole SVG, in which the title of a box has the name of the function, escaped, and its share."""
    picture = drawn("read", Counter({("<module>",): 4}))

    assert picture.startswith("<svg xmlns=")
    assert picture.endswith("</svg>\n")
    assert "<title>&lt;module&gt; 100.0%</title>" in picture
