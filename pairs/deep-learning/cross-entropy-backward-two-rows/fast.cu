#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD 8
#define AHEAD 4
#define LOWEST -1.0e38f
#define LOG2E 1.4426950408889634f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

struct Running {
    float largest, sum;
};

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    const unsigned word = reinterpret_cast<const unsigned *>(&bits)[j];
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

// Eight logits, or minus infinity, whose powers are zero.
__device__ __forceinline__ uint4 load(const uint4 *__restrict__ eights, int i, int groups)
{
    const unsigned none = 0xff80ff80u;
    return i < groups ? __ldcs(eights + i) : make_uint4(none, none, none, none);
}

// The maximum is found on packed pairs and the sum changes its scale once for all COUNT pieces.
template <int COUNT> __device__ __forceinline__ void take(Running &mine, const uint4 (&bits)[COUNT])
{
    __nv_bfloat162 top = reinterpret_cast<const __nv_bfloat162 *>(&bits[0])[0];
#pragma unroll
    for (int u = 0; u < COUNT; u++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            top = __hmax2(top, reinterpret_cast<const __nv_bfloat162 *>(&bits[u])[j]);
    const float both = fmaxf(mine.largest, fmaxf(__low2float(top), __high2float(top)));
    float sum = mine.sum * power_of_2((mine.largest - both) * LOG2E);
    const float shift = -both * LOG2E;
#pragma unroll
    for (int u = 0; u < COUNT; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 x = at(bits[u], j);
            sum += power_of_2(fmaf(x.x, LOG2E, shift)) + power_of_2(fmaf(x.y, LOG2E, shift));
        }
    mine = {both, sum};
}

// The largest of WIDTH lanes, then the sum: one change of scale a lane.
template <int WIDTH> __device__ __forceinline__ Running lanes_merge(Running mine)
{
    float both = mine.largest;
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        both = fmaxf(both, __shfl_xor_sync(ALL, both, offset));
    float sum = mine.sum * power_of_2((mine.largest - both) * LOG2E);
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    return {both, sum};
}

__device__ __forceinline__ Running block_merge(Running mine)
{
    __shared__ Running parts[WARPS];
    mine = lanes_merge<32>(mine);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    return lanes_merge<WARPS>(parts[threadIdx.x % WARPS]);
}

__device__ __forceinline__ uint4 gradient(const uint4 &bits, float shift, float by)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 x = at(bits, j);
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(
            power_of_2(fmaf(x.x, LOG2E, shift)) * by, power_of_2(fmaf(x.y, LOG2E, shift)) * by);
    }
    return result;
}

// A row is held in registers between its reduction and its gradient. The label's element is written twice by the same
// thread, so that no other element asks whether it is the label's.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    cross_entropy(bf16 *__restrict__ logits, const int *__restrict__ labels, float *__restrict__ loss, int vocab,
                  float scale)
{
    bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    uint4 *eights = reinterpret_cast<uint4 *>(row);
    const int groups = vocab / 8;
    const bool whole = vocab % 8 == 0, held = whole && groups <= HELD * THREADS;
    Running mine = {LOWEST, 0.0f};
    uint4 own[HELD];
    if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++)
            own[u] = load(eights, threadIdx.x + u * THREADS, groups);
        take(mine, own);
    } else if (whole) {
        for (int i = threadIdx.x; i < groups; i += AHEAD * THREADS) {
            uint4 some[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                some[u] = load(eights, i + u * THREADS, groups);
            take(mine, some);
        }
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS) {
            const float x = __bfloat162float(row[i]), both = fmaxf(mine.largest, x);
            mine.sum = mine.sum * power_of_2((mine.largest - both) * LOG2E) + power_of_2((x - both) * LOG2E);
            mine.largest = both;
        }
    }
    const int label = labels[blockIdx.x];
    const float chosen = __bfloat162float(row[label]);
    mine = block_merge(mine);
    const float by = __fdividef(scale, mine.sum), shift = -mine.largest * LOG2E;
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(mine.sum) + mine.largest - chosen;
    if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            if (i < groups)
                __stcs(eights + i, gradient(own[u], shift, by));
        }
    } else if (whole) {
#pragma unroll 4
        for (int i = threadIdx.x; i < groups; i += THREADS)
            __stcs(eights + i, gradient(eights[i], shift, by));
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            row[i] = __float2bfloat16(power_of_2(fmaf(__bfloat162float(row[i]), LOG2E, shift)) * by);
    }
    if ((whole ? label / 8 : label) % THREADS == threadIdx.x)
        row[label] = __float2bfloat16(power_of_2(fmaf(chosen, LOG2E, shift)) * by - scale);
}
