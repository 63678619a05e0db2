"""Which code holds a function of which other."""

from __future__ import annotations

import re

from kcurate.cuda_source.compare.containment import HELD, held, standing_in
from kcurate.cuda_source.text.normalise import normalised_tokens

DIRECTIVES = "#include <cuda_fp16.h>\n" + "".join(f"#define SIZE_{k} {k}\n" for k in range(40))


def function(name: str, *signs: str) -> str:
    steps = "".join(f"    v = v {sign} {k}.5f {sign} w;\n" for sign in signs for k in range(9))
    return f"__device__ float {name}(float v, float w)\n{{\n{steps}    return v;\n}}\n"


def test_a_function_behind_directives_is_found_in_another_file() -> None:
    codes = [DIRECTIVES + function("first", "+") + function("second", "-"), function("renamed", "+")]
    found = [(one.function, one.of, one.by) for one in held([*codes, function("other", "*")])]
    assert found == [("first", 0, 1), ("renamed", 1, 0)]


def test_a_function_is_as_long_behind_directives_and_comments() -> None:
    alone, behind = function("one", "+"), f"/* Adds. */\n{DIRECTIVES}{function('one', '+')}"
    whole = len(normalised_tokens(alone.encode()))
    assert [one.tokens for one in held([alone, behind])] == [whole, whole]


def test_a_code_stands_in_another_whatever_its_names() -> None:
    """As a whole: what is longer holds what is shorter, and a short code is too common to tell anything."""
    short, long = function("sum", "+"), re.sub(r"\bv\b", "value", function("sum", "+", "*"))
    ((number, by, share),) = standing_in([function("tiny"), short], [function("other", "-"), long])
    assert (number, by) == (1, 1) and HELD <= share <= 1
    assert not list(standing_in([long], [short]))
