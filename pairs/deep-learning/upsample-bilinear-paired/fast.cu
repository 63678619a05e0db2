#include <cuda_bf16.h>

#define ALL 0xffffffffu

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

// Sixteen pixels, of which the lower or upper eight go to the neighbouring lane for eight of its own: what two lanes
// store at once then lies side by side and fills whole sectors.
__device__ __forceinline__ void put_row(bf16 *own_place, bf16 *other_place, const float (&near)[10],
                                        const float (&far)[10], bool alone)
{
    uint4 bits[2];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float left = mix(near[j], far[j]), own = mix(near[j + 1], far[j + 1]), right = mix(near[j + 2], far[j + 2]);
        reinterpret_cast<__nv_bfloat162 *>(bits)[j] = __floats2bfloat162_rn(mix(own, left), mix(own, right));
    }
    const bool odd = threadIdx.x % 2;
    const uint4 sent = odd ? bits[0] : bits[1], kept = odd ? bits[1] : bits[0];
    uint4 got;
    got.x = __shfl_xor_sync(ALL, sent.x, 1);
    got.y = __shfl_xor_sync(ALL, sent.y, 1);
    got.z = __shfl_xor_sync(ALL, sent.z, 1);
    got.w = __shfl_xor_sync(ALL, sent.w, 1);
    if (own_place == nullptr)
        return;
    uint4 *own = reinterpret_cast<uint4 *>(own_place), *other = reinterpret_cast<uint4 *>(other_place);
    if (alone) {
        __stcs(own, bits[0]);
        __stcs(own + 1, bits[1]);
        return;
    }
    // First the even lane's sixteen pixels, then the odd lane's.
    __stcs(odd ? other + 1 : own, odd ? got : kept);
    __stcs(odd ? own + 1 : other, odd ? kept : got);
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
    const int place = blockIdx.x * blockDim.x + threadIdx.x, item = min(place, count - 1);
    const int wide = w % 8 == 0 ? w / 8 : w;
    const int line = item / wide, x = item - line * wide, plane = line / h, y = line - plane * h;
    const bf16 *from = in + static_cast<size_t>(plane) * h * w;
    bf16 *to = out + static_cast<size_t>(plane) * 4 * h * w;
    if (w % 8 != 0) {
        if (place < count)
            square(from, to, y, x, h, w);
        return;
    }
    float above[10], own[10], below[10];
    load(from + max(y - 1, 0) * w, 8 * x, w, above);
    load(from + y * w, 8 * x, w, own);
    load(from + min(y + 1, h - 1) * w, 8 * x, w, below);
    to = place < count ? to + 2 * y * 2 * w + 16 * x : nullptr;
    bf16 *other = reinterpret_cast<bf16 *>(__shfl_xor_sync(ALL, reinterpret_cast<unsigned long long>(to), 1));
    const bool alone = other == nullptr;
    put_row(to, other, own, above, alone);
    put_row(to == nullptr ? nullptr : to + 2 * w, alone ? nullptr : other + 2 * w, own, below, alone);
}
