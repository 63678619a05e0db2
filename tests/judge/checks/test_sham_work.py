"""The check for sham work takes bounded time on any code, and tells padding from honest loops."""

from __future__ import annotations

import time

import pytest

from kcurate.judge.checks.lexer import Source
from kcurate.judge.checks.sham_work import find_sham_work

CHARS = 200_000
# The worst of these took 1.3 s on a 2-core x86-64 machine (November 2026).
LIMIT_S = 10.0
NEST = "for (i = 0; i < n; i++) { x = y; if (a) {"


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "for(;;){",
        "while(1){",
        "while(i<n){i++;",
        "for(i=0;i<n;i++){x=1;",
        "for(",
        "while(",
        "if(a){",
        NEST * 40 + "}}" * 40,
    ],
    ids=["for", "while", "counting", "counted", "open-head", "open-while", "if", "nested"],
)
def test_time_is_bounded_for_repetitive_code(piece: str) -> None:
    code = ("__global__ void work() {" + piece * (CHARS // len(piece)))[:CHARS]
    source = Source(code)
    assert source.plain
    started = time.process_time()
    list(find_sham_work(source))
    assert time.process_time() - started < LIMIT_S


def test_a_redundant_loop_is_found_among_many_honest_ones() -> None:
    honest = "for (int i = 0; i < n; i++) { y[i] = x[i]; }\n" * 300
    code = "__global__ void work() {" + honest + "for (int i = 0; i < 9; i++) { z = x[0]; }\n}"
    (finding,) = find_sham_work(Source(code))
    assert finding.line == 301
    assert not list(find_sham_work(Source("__global__ void work() {" + honest + "}")))
