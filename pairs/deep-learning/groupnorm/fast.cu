#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define SLOTS 14
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

// Sums of the block. Callers take turns at two rows of `parts`, so that one barrier is enough.
__device__ __forceinline__ float2 block_sums(float2 value, float2 *parts)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    return value;
}

// Sums of the distance from the group's first value and of its square: a mean far from zero cancels nothing.
__device__ __forceinline__ float2 add_eight(const uint4 &bits, float pivot, float2 sums)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float left = at(bits, j).x - pivot, right = at(bits, j).y - pivot;
        sums.x += left + right;
        sums.y = fmaf(left, left, fmaf(right, right, sums.y));
    }
    return sums;
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

// `off`: the mean's distance from the pivot.
__device__ __forceinline__ float rstd_of(const float2 &sums, float off, int count, float eps)
{
    return rsqrtf(fmaxf(sums.y / count - off * off, 0.0f) + eps);
}

// Groups of odd planes, by single elements, and groups that are too large for the ring.
__device__ __forceinline__ void from_memory(const bf16 *__restrict__ in, const bf16 *__restrict__ weight,
                                            const bf16 *__restrict__ bias, bf16 *__restrict__ out, float2 *parts,
                                            int count, int space, float eps)
{
    const float pivot = __bfloat162float(in[0]);
    float2 sums = make_float2(0.0f, 0.0f);
    if (space % 8 != 0) {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const float v = __bfloat162float(in[i]) - pivot;
            sums = make_float2(sums.x + v, fmaf(v, v, sums.y));
        }
    } else {
#pragma unroll 4
        for (int i = threadIdx.x; i < count / 8; i += THREADS)
            sums = add_eight(reinterpret_cast<const uint4 *>(in)[i], pivot, sums);
    }
    sums = block_sums(sums, parts);
    const float off = sums.x / count, mean = pivot + off, rstd = rstd_of(sums, off, count, eps);
    if (space % 8 != 0) {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const float by = rstd * __bfloat162float(weight[i / space]);
            out[i] = __float2bfloat16(fmaf(__bfloat162float(in[i]) - mean, by, __bfloat162float(bias[i / space])));
        }
        return;
    }
#pragma unroll 2
    for (int i = threadIdx.x; i < count / 8; i += THREADS) {
        const int c = i / (space / 8);
        const float by = rstd * __bfloat162float(weight[c]);
        __stcs(reinterpret_cast<uint4 *>(out) + i,
               scaled(reinterpret_cast<const uint4 *>(in)[i], by, fmaf(-mean, by, __bfloat162float(bias[c]))));
    }
}

// A thread's sums of the chunks in the ring from `slot` on; `left` counts from its place in the first of them, after
// whose copy group BEHIND others were committed.
template <int BEHIND>
__device__ __forceinline__ float2 sums_of(const uint4 *ring, int slot, int left, float pivot, float2 sums)
{
    if (left <= 0)
        return sums;
    asm volatile("cp.async.wait_group %0;" ::"n"(BEHIND) : "memory");
    sums = add_eight(ring[slot * THREADS + threadIdx.x], pivot, sums);
    if constexpr (BEHIND > 0)
        sums = sums_of<BEHIND - 1>(ring, slot + 1 < SLOTS ? slot + 1 : 0, left - THREADS, pivot, sums);
    return sums;
}

// A block's groups flow through a ring in shared memory, where each thread reads only what it copied: while a group is
// summed and written, the chunks of the next are on their way to the slots that it leaves.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    groupnorm(const bf16 *__restrict__ in, const bf16 *__restrict__ weight, const bf16 *__restrict__ bias,
              bf16 *__restrict__ out, int number, int groups, int per_group, int space, float eps)
{
    extern __shared__ uint4 ring[];
    __shared__ float2 parts[2][WARPS];
    const int count = per_group * space, eights = count / 8, chunks = (eights + THREADS - 1) / THREADS;
    if (space % 8 != 0 || chunks > SLOTS) {
        int turn = 0;
        for (int group = blockIdx.x; group < number; group += gridDim.x, turn ^= 1) {
            const int channel = group % groups * per_group;
            const size_t first = static_cast<size_t>(group) * count;
            from_memory(in + first, weight + channel, bias + channel, out + first, parts[turn], count, space, eps);
        }
        return;
    }
    const int step = space / 8, channels_a_chunk = THREADS / step, rest_a_chunk = THREADS % step;
    const int mine = (number - static_cast<int>(blockIdx.x) + gridDim.x - 1) / gridDim.x;
    const uint4 *from = reinterpret_cast<const uint4 *>(in) + static_cast<size_t>(blockIdx.x) * eights + threadIdx.x;
    int to_copy = mine * chunks, next_chunk = 0, next_slot = 0;
    // Commits a copy group even if nothing is left, so that the number of groups behind a chunk is always known.
    auto request = [&]() {
        if (to_copy > 0) {
            to_copy--;
            if (next_chunk * THREADS + static_cast<int>(threadIdx.x) < eights)
                copy_async(ring + next_slot * THREADS + threadIdx.x, from + next_chunk * THREADS);
            if (++next_chunk == chunks) {
                next_chunk = 0;
                from += static_cast<size_t>(gridDim.x) * eights;
            }
            next_slot = next_slot + 1 < SLOTS ? next_slot + 1 : 0;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#pragma unroll 1
    for (int s = 0; s < SLOTS; s++)
        request();
    int first_slot = 0, turn = 0;
    const size_t stride = static_cast<size_t>(gridDim.x) * count;
    const bf16 *first = in + static_cast<size_t>(blockIdx.x) * count;
    float pivot = __bfloat162float(*first);
    for (int group = blockIdx.x; group < number; group += gridDim.x, turn ^= 1) {
        const int left = eights - static_cast<int>(threadIdx.x);
        const float2 own = sums_of<SLOTS - 1>(ring, first_slot, left, pivot, make_float2(0.0f, 0.0f));
        const float2 sums = block_sums(own, parts[turn]);
        const float off = sums.x / count, mean = pivot + off, rstd = rstd_of(sums, off, count, eps);
        first += stride;
        if (group + static_cast<int>(gridDim.x) < number)
            pivot = __bfloat162float(*first);
        uint4 *to = reinterpret_cast<uint4 *>(out) + static_cast<size_t>(group) * eights;
        int channel = group % groups * per_group + static_cast<int>(threadIdx.x) / step;
        int rest = static_cast<int>(threadIdx.x) % step;
        for (int i = threadIdx.x; i < chunks * THREADS; i += THREADS) {
            if (i < eights) {
                const float by = rstd * __bfloat162float(weight[channel]);
                __stcs(to + i, scaled(ring[first_slot * THREADS + threadIdx.x], by,
                                      fmaf(-mean, by, __bfloat162float(bias[channel]))));
            }
            request();
            channel += channels_a_chunk;
            rest += rest_a_chunk;
            if (rest >= step) {
                rest -= step;
                channel++;
            }
            first_slot = first_slot + 1 < SLOTS ? first_slot + 1 : 0;
        }
    }
}
