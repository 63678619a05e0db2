import triton
import triton.language as tl


@triton.jit
def average(images, out, planes, space, PLANES: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0) * PLANES + tl.arange(0, PLANES)
    at = tl.arange(0, BLOCK)
    total = tl.zeros([PLANES, BLOCK], tl.float32)
    for base in range(0, space, BLOCK):
        inside = (plane[:, None] < planes) & (base + at[None, :] < space)
        total += tl.load(images + plane[:, None] * space + base + at[None, :], mask=inside, other=0.0)
    tl.store(out + plane, tl.sum(total, axis=1) / space, mask=plane < planes)
