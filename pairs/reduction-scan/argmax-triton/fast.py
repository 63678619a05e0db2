import triton
import triton.language as tl

# Less than every value, and a place after all others.
LOWEST = tl.constexpr(-2147483648)
LAST = tl.constexpr(2147483647)


@triton.jit
def argmax(values, tops, places, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], LOWEST, tl.int32)
    place = tl.full([BLOCK], LAST, tl.int32)
    for base in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        held = tl.load(values + base + at, mask=base + at < n, other=LOWEST)
        place = tl.where(held > top, base + at, place)
        top = tl.maximum(top, held)
    best = tl.max(top, axis=0)
    tl.store(tops + tl.program_id(0), best)
    tl.store(places + tl.program_id(0), tl.min(tl.where(top == best, place, LAST), axis=0))


@triton.jit
def argmax_of_pairs(tops, places, best, place, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    top = tl.load(tops + at, mask=at < COUNT, other=LOWEST)
    found = tl.load(places + at, mask=at < COUNT, other=LAST)
    largest = tl.max(top, axis=0)
    tl.store(best, largest)
    tl.store(place, tl.min(tl.where(top == largest, found, LAST), axis=0))
