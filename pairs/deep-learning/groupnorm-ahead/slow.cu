#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD_BYTES 114688
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ float sum_of(const uint4 &bits, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        sum += at(bits, j).x + at(bits, j).y;
    return sum;
}

__device__ __forceinline__ float squares_of(const uint4 &bits, float mean, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float left = at(bits, j).x - mean, right = at(bits, j).y - mean;
        sum = fmaf(left, left, fmaf(right, right, sum));
    }
    return sum;
}

__device__ __forceinline__ uint4 scaled(const uint4 &bits, float by, float shift)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(fmaf(at(bits, j).x, by, shift), fmaf(at(bits, j).y, by, shift));
    return result;
}

// A block a group. Up to HELD_BYTES of it stay in shared memory, where each thread reads only what it copied.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    groupnorm(const bf16 *__restrict__ in, const bf16 *__restrict__ weight, const bf16 *__restrict__ bias,
              bf16 *__restrict__ out, int groups, int per_group, int space, float eps)
{
    extern __shared__ uint4 held[];
    const int count = per_group * space, eights = count / 8;
    const size_t first = static_cast<size_t>(blockIdx.x) * count;
    const int channel = static_cast<int>(blockIdx.x) % groups * per_group;
    float sum = 0.0f;
    if (space % 8 != 0) {
        for (int i = threadIdx.x; i < count; i += THREADS)
            sum += __bfloat162float(in[first + i]);
        const float mean = block_sum(sum) / count;
        sum = 0.0f;
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const float d = __bfloat162float(in[first + i]) - mean;
            sum = fmaf(d, d, sum);
        }
        const float rstd = rsqrtf(block_sum(sum) / count + eps);
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int c = channel + i / space;
            const float by = rstd * __bfloat162float(weight[c]);
            out[first + i] =
                __float2bfloat16((__bfloat162float(in[first + i]) - mean) * by + __bfloat162float(bias[c]));
        }
        return;
    }
    const uint4 *data = reinterpret_cast<const uint4 *>(in + first);
    uint4 *to = reinterpret_cast<uint4 *>(out + first);
    const int step = space / 8;
    if (count * 2 <= HELD_BYTES) {
        for (int i = threadIdx.x; i < eights; i += THREADS)
            copy_async(held + i, data + i);
        asm volatile("cp.async.wait_all;" ::: "memory");
        data = held;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < eights; i += THREADS)
        sum = sum_of(data[i], sum);
    const float mean = block_sum(sum) / count;
    sum = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < eights; i += THREADS)
        sum = squares_of(data[i], mean, sum);
    const float rstd = rsqrtf(block_sum(sum) / count + eps);
#pragma unroll 2
    for (int i = threadIdx.x; i < eights; i += THREADS) {
        const int c = channel + i / step;
        const float by = rstd * __bfloat162float(weight[c]);
        __stcs(to + i, scaled(data[i], by, fmaf(-mean, by, __bfloat162float(bias[c]))));
    }
}
