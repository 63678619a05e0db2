"""Reading for shams takes a bounded time, whatever the code repeats; honest and sham loops are told apart."""

from __future__ import annotations

import time

import pytest

from kcurate.judge.checks.lexer import Source
from kcurate.judge.checks.padded_work import sham

CHARS = 200_000
# One reading of the worst of these took 1.3 s on a 2-core x86-64 machine (November 2026); before, 50 s.
LIMIT_S = 10.0
NEST = "for (i = 0; i < n; i++) { x = y; if (a) {"


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
def test_time_is_bounded_for_code_that_repeats_itself(piece: str) -> None:
    code = ("__global__ void work() {" + piece * (CHARS // len(piece)))[:CHARS]
    source = Source(code)
    assert source.plain
    started = time.process_time()
    list(sham(source))
    assert time.process_time() - started < LIMIT_S


def test_a_sham_loop_is_found_among_many_honest_ones() -> None:
    honest = "for (int i = 0; i < n; i++) { y[i] = x[i]; }\n" * 300
    code = "__global__ void work() {" + honest + "for (int i = 0; i < 9; i++) { z = x[0]; }\n}"
    (finding,) = sham(Source(code))
    assert finding.line == 301
    assert not list(sham(Source("__global__ void work() {" + honest + "}")))
