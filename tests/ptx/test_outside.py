"""What compiled code depends on outside its launch."""

from __future__ import annotations

import pytest

from kcurate.ptx.outside import outside

LOCAL = "uses local memory that no variable declares"
FRAME = ".local .align 4 .b8 depot[4];"
READS = "ld.local.u32 %r1, [%rd1];"


@pytest.mark.parametrize(
    ("entry", "called", "facts"),
    [
        (READS, "", (LOCAL,)),
        (FRAME + READS, "", ()),
        (FRAME + "call.uni f, (a);", READS, ()),  # a function that may be given an address of the caller's
        (
            FRAME + "call.uni f, (a);",
            "call.uni g, (a); } .func g(.param .b64 p) { call.uni f, (a);" + READS,
            (),
        ),
        ("call.uni f, (a);", READS, (LOCAL,)),
        (FRAME, READS, (LOCAL,)),
        (FRAME + "call.uni f, (a);", READS + "} .entry other() { call.uni f, (a);", (LOCAL,)),
    ],
)
def test_local_memory_is_a_variable_of_the_function_or_of_all_its_callers(
    entry: str, called: str, facts: tuple[str, ...]
) -> None:
    function = f".func (.param .b32 r) f(.param .b64 p) {{ {called} }}"
    assert outside(f".visible .entry k(.param .u64 p) {{ {entry} }} {function}") == facts
