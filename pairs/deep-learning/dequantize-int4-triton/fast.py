import triton
import triton.language as tl


@triton.jit
def dequantize(packed, scales, zeros, out, groups, GROUPS: tl.constexpr):
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    inside = group < groups
    scale = tl.load(scales + group, mask=inside).to(tl.float32)[:, None]
    zero = tl.load(zeros + group, mask=inside).to(tl.int32)[:, None]
    at = tl.arange(0, 64)[None, :]
    codes = tl.load(packed + group[:, None].to(tl.int64) * 64 + at, mask=inside[:, None]).to(tl.int32)
    low = (((codes & 15) - zero).to(tl.float32) * scale).to(tl.float16)
    high = (((codes >> 4) - zero).to(tl.float32) * scale).to(tl.float16)
    place = group[:, None].to(tl.int64) * 128 + tl.arange(0, 128)[None, :]
    tl.store(out + place, tl.interleave(low, high), mask=inside[:, None])
