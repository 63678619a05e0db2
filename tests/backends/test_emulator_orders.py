"""Random orders of threads on the emulator: code without a barrier gives several answers, other code one."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import Program

SEEDS = range(1, 13)
PLAIN_COUNT = "__global__ void f(int *c) { volatile int *v = c; v[0] = v[0] + 1; }"
ATOMIC_COUNT = "__global__ void f(int *c) { atomicAdd(c, 1); }"
PTX_COUNT = """__global__ void f(int *c)
{
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(c) : "memory");
}"""
SHARED_SUM = """__global__ void f(int *c)
{
    __shared__ int part[64];
    const int t = threadIdx.x;
    part[t] = 1;
    for (int width = 32; width > 0; width /= 2) {
        SYNC;
        if (t < width) part[t] += part[t + width];
    }
    if (t == 0) atomicAdd(c, part[0]);
}"""
CHAIN = """__global__ void f(int *c, volatile int *flag)
{
    if (threadIdx.x == 0 && blockIdx.x > 0)
        while (flag[blockIdx.x - 1] == 0)
            ;
    __syncthreads();
    if (threadIdx.x != 0) return;
    c[0] = c[0] * 2 % 1000 + 1;
    __threadfence();
    flag[blockIdx.x] = 1;
}"""
LANES = """__global__ void f(int *c)
{
    unsigned sum = __reduce_add_sync(~0u, threadIdx.x % 32) + __ballot_sync(~0u, threadIdx.x % 2);
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (threadIdx.x % 32 == 0) atomicAdd(c, (int)sum);
}"""


def answers(code: str, *more: np.ndarray[tuple[int], np.dtype[np.int32]]) -> set[int]:
    program = Program(code, turns=True)
    found = set()
    for seed in SEEDS:
        program.device.schedule(program.module, seed)
        found.add(int(program.run(np.zeros(1, np.int32), *more, grid=20, block=64)[0][0]))
    return found


@pytest.mark.parametrize("code", [PLAIN_COUNT, SHARED_SUM.replace("SYNC", "")])
def test_code_without_a_barrier_gives_several_answers(code: str) -> None:
    assert len(answers(code)) > 1


@pytest.mark.parametrize(
    "code", [ATOMIC_COUNT, PTX_COUNT, SHARED_SUM.replace("SYNC", "__syncthreads()"), LANES]
)
def test_synchronised_code_gives_one_answer(code: str) -> None:
    assert len(answers(code)) == 1


def test_blocks_that_wait_for_each_other_end() -> None:
    assert len(answers(CHAIN, np.zeros(20, np.int32))) == 1


def test_an_order_is_repeatable() -> None:
    for seed in (1, 2):
        found = set()
        for _ in range(3):
            program = Program(PLAIN_COUNT, turns=True)
            program.device.schedule(program.module, seed)
            found.add(int(program.run(np.zeros(1, np.int32), grid=20, block=64)[0][0]))
        assert len(found) == 1
