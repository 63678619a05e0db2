#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ __nv_bfloat162 pair_at(const uint4 &bits, int j)
{
    return reinterpret_cast<const __nv_bfloat162 *>(&bits)[j];
}

// Four outputs a thread: eight neighbours of four lines, compared in packed pairs that never leave bfloat16.
extern "C" __global__ void __launch_bounds__(256)
    max_pool(const bf16 *__restrict__ in, bf16 *__restrict__ out, int d, int h, int w, int count)
{
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count)
        return;
    const bool whole = w % 4 == 0;
    const int wide = whole ? w / 4 : w, line = item / wide, x = item - line * wide;
    const int slab = line / h, y = line - slab * h;
    const size_t first = (static_cast<size_t>(slab) * 4 * h + 2 * y) * 2 * w, below = static_cast<size_t>(4) * h * w;
    const bf16 *from[4] = {in + first, in + first + 2 * w, in + first + below, in + first + below + 2 * w};
    if (!whole) {
        bf16 best = from[0][2 * x];
#pragma unroll
        for (int j = 0; j < 4; j++)
            best = __hmax(best, __hmax(from[j][2 * x], from[j][2 * x + 1]));
        out[item] = best;
        return;
    }
    uint4 bits[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        bits[j] = __ldcs(reinterpret_cast<const uint4 *>(from[j]) + x);
    bf16 best[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const __nv_bfloat162 two = __hmax2(__hmax2(pair_at(bits[0], j), pair_at(bits[1], j)),
                                           __hmax2(pair_at(bits[2], j), pair_at(bits[3], j)));
        best[j] = __hmax(__low2bfloat16(two), __high2bfloat16(two));
    }
    uint2 result;
    reinterpret_cast<__nv_bfloat162 *>(&result)[0] = __halves2bfloat162(best[0], best[1]);
    reinterpret_cast<__nv_bfloat162 *>(&result)[1] = __halves2bfloat162(best[2], best[3]);
    __stcs(reinterpret_cast<uint2 *>(out) + item, result);
}
