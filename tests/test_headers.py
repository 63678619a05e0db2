"""The table of headers agrees with what is there: the emulator's folder, NVRTC's stand-ins, the libraries."""

from __future__ import annotations

import pytest

from kcurate.backends.cuda import host_headers
from kcurate.backends.emulator.source import INCLUDE
from kcurate.core import headers
from kcurate.judge.checks import spelling
from kcurate.judge.checks.lexer import Source


def test_emulated_headers_are_those_of_its_folder() -> None:
    there = {path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*") if path.is_file()}
    assert {name for name in there if not name.startswith("kcurate/")} == headers.EMULATED


def test_every_header_stands_once() -> None:
    names = [name for group in headers._TABLE.values() for name in group.split()]
    assert len(names) == len(set(names))
    assert {mark for marks in headers._TABLE for mark in marks.split()} == {
        "side", "kept", "emulated",
    }  # fmt: skip


def test_what_the_judge_lets_pass_reaches_a_kernel_or_is_habit() -> None:
    """What extract drops gives names that every compiler here has anyway, or that the shim gives."""
    dropped = headers.IN_SIDES - headers.KEPT
    assert dropped <= headers.EMULATED
    assert set(host_headers.HEADERS) <= dropped


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("cuda_fp16.h", True),
        ("cuda_awbarrier_primitives.h", True),
        ("cooperative_groups/details/sync.h", True),
        ("cub/block/block_reduce.cuh", True),
        ("cuda/std/span", True),
        ("cuda_runtime.h", False),
        ("stdio.h", False),
        ("cudalike.h", False),
    ],
)
def test_extract_keeps_headers_of_device_code(name: str, kept: bool) -> None:
    assert headers.kept(name) is kept
    assert all(map(headers.kept, headers.KEPT))


def test_the_judge_refuses_every_other_header() -> None:
    code = "".join(f"#include <{name}>\n" for name in (*sorted(headers.IN_SIDES), "stdio.h", "cuda/std/span"))
    found = [finding.what for finding in spelling.headers(Source(code))]
    assert found == ["the header <stdio.h> is not available", "the header <cuda/std/span> is not available"]
