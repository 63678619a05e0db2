#include <cuda_bf16.h>

#define WIDTH 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// A warp walks stretches of 256 elements of one row; the three elements before a thread's eight come from its neighbour.
extern "C" __global__ void __launch_bounds__(256)
    causal_conv(const bf16 *__restrict__ x, const bf16 *__restrict__ weight, const bf16 *__restrict__ bias,
                bf16 *__restrict__ out, int channels, int length, int rows)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const int channel = row % channels;
    const size_t first = static_cast<size_t>(row) * length;
    float w[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        w[j] = __bfloat162float(weight[channel * WIDTH + j]);
    const float shift = __bfloat162float(bias[channel]);
    if (length % 8 != 0) {
        for (int t = lane; t < length; t += 32) {
            float sum = shift;
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                if (t - (WIDTH - 1) + j >= 0)
                    sum = fmaf(w[j], __bfloat162float(x[first + t - (WIDTH - 1) + j]), sum);
            out[first + t] = __float2bfloat16(silu(sum));
        }
        return;
    }
    const uint4 *from = reinterpret_cast<const uint4 *>(x + first);
    uint4 *to = reinterpret_cast<uint4 *>(out + first);
    const int groups = length / 8;
    uint4 next = lane < groups ? __ldcs(from + lane) : make_uint4(0, 0, 0, 0);
    uint2 carry = make_uint2(0, 0);
    for (int tile = 0; tile < groups; tile += 32) {
        const uint4 own = next;
        if (tile + 32 + lane < groups)
            next = __ldcs(from + tile + 32 + lane);
        uint2 before = make_uint2(__shfl_up_sync(ALL, own.z, 1), __shfl_up_sync(ALL, own.w, 1));
        if (lane == 0)
            before = carry;
        carry = make_uint2(__shfl_sync(ALL, own.z, 31), __shfl_sync(ALL, own.w, 31));
        if (tile + lane >= groups)
            continue;
        const unsigned words[6] = {before.x, before.y, own.x, own.y, own.z, own.w};
        float value[12];
#pragma unroll
        for (int j = 0; j < 6; j++) {
            value[2 * j] = __uint_as_float(words[j] << 16);
            value[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
        }
        uint4 result;
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            float left = shift, right = shift;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                left = fmaf(w[i], value[j + 1 + i], left);
                right = fmaf(w[i], value[j + 2 + i], right);
            }
            reinterpret_cast<__nv_bfloat162 *>(&result)[j / 2] = __floats2bfloat162_rn(silu(left), silu(right));
        }
        __stcs(to + tile + lane, result);
    }
}
