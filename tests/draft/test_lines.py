"""The line of a form that a message about one of its places names."""

from __future__ import annotations

import pytest

from kcurate.draft.file.toml_reader import line_of

FORM = """suite = "tree"
[problem.sizes]
test = [{n = 500}]
[problem.buffers.in]
dtype = "float32"
init = {kind = "normal"}
[problem.buffers.out]
dtype = "float32"
[[sides."".plan]]
launch = "first"
grid = [1]
args = ["in"]
[[sides."".plan]]
launch = "second"
args = ["out"]
"""


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("problem.sizes.test", 3),
        ("problem.buffers.in.init", 6),
        ("problem.buffers.out.dtype", 8),
        ("$.problem.buffers.out", 7),
        ("slow.plan[0]", 9),
        ("fast.plan[0].grid[0]", 11),
        ("slow.plan[1].args[0]", 15),
        ("sides.plan[1]", 13),
        ("fast.plan[1].grid", 13),
        ("fast.plan[7]", 9),
        ("nowhere", 1),
    ],
)
def test_a_place_is_found_on_its_line(where: str, line: int) -> None:
    assert line_of(FORM, where) == line
