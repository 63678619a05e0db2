#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

// Eight pixels of a row and their neighbours on both sides, repeated at the borders.
__device__ __forceinline__ void load(const bf16 *__restrict__ row, int x, int w, float (&to)[10])
{
    const uint4 bits = *reinterpret_cast<const uint4 *>(row + x);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
        to[2 * j + 1] = pair.x;
        to[2 * j + 2] = pair.y;
    }
    to[0] = x > 0 ? __bfloat162float(row[x - 1]) : to[1];
    to[9] = x + 8 < w ? __bfloat162float(row[x + 8]) : to[8];
}

// A quarter of the farther one, three quarters of the nearer one.
__device__ __forceinline__ float mix(float near, float far) { return fmaf(0.25f, far - near, near); }

__device__ __forceinline__ void put_row(bf16 *__restrict__ to, const float (&near)[10], const float (&far)[10])
{
    uint4 bits[2];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float left = mix(near[j], far[j]), own = mix(near[j + 1], far[j + 1]), right = mix(near[j + 2], far[j + 2]);
        reinterpret_cast<__nv_bfloat162 *>(bits)[j] = __floats2bfloat162_rn(mix(own, left), mix(own, right));
    }
    __stcs(reinterpret_cast<uint4 *>(to), bits[0]);
    __stcs(reinterpret_cast<uint4 *>(to) + 1, bits[1]);
}

__device__ __forceinline__ void square(const bf16 *__restrict__ plane, bf16 *__restrict__ out, int y, int x, int h,
                                       int w)
{
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            const int v = min(max(y + 2 * dy - 1, 0), h - 1), u = min(max(x + 2 * dx - 1, 0), w - 1);
            const float near = mix(__bfloat162float(plane[y * w + x]), __bfloat162float(plane[v * w + x]));
            const float far = mix(__bfloat162float(plane[y * w + u]), __bfloat162float(plane[v * w + u]));
            out[(2 * y + dy) * 2 * w + 2 * x + dx] = __float2bfloat16(mix(near, far));
        }
}

// A thread turns eight pixels into two rows of sixteen.
extern "C" __global__ void __launch_bounds__(256)
    upsample(const bf16 *__restrict__ in, bf16 *__restrict__ out, int h, int w, int count)
{
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count)
        return;
    const int wide = w % 8 == 0 ? w / 8 : w;
    const int line = item / wide, x = item - line * wide, plane = line / h, y = line - plane * h;
    const bf16 *from = in + static_cast<size_t>(plane) * h * w;
    bf16 *to = out + static_cast<size_t>(plane) * 4 * h * w;
    if (w % 8 != 0) {
        square(from, to, y, x, h, w);
        return;
    }
    float above[10], own[10], below[10];
    load(from + max(y - 1, 0) * w, 8 * x, w, above);
    load(from + y * w, 8 * x, w, own);
    load(from + min(y + 1, h - 1) * w, 8 * x, w, below);
    to += 2 * y * 2 * w + 16 * x;
    put_row(to, own, above);
    put_row(to + 2 * w, own, below);
}
