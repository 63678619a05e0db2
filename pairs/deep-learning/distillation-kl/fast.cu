#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define AHEAD 4
#define LOWEST -1.0e30f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// Of the logits so far: both maxima and sums of powers, and the teacher's powers times the differences.
struct Running {
    float t_max, t_sum, s_max, s_sum, product;
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

// Eight logits, or minus 2 to the 100, whose powers are zero and whose differences are too.
__device__ __forceinline__ uint4 load(const uint4 *__restrict__ eights, int i, int groups)
{
    const unsigned none = 0xf180f180u;
    return i < groups ? __ldcs(eights + i) : make_uint4(none, none, none, none);
}

__device__ __forceinline__ float largest(const uint4 (&bits)[AHEAD])
{
    __nv_bfloat162 top = reinterpret_cast<const __nv_bfloat162 *>(&bits[0])[0];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            top = __hmax2(top, reinterpret_cast<const __nv_bfloat162 *>(&bits[u])[j]);
    return fmaxf(__low2float(top), __high2float(top));
}

// Changes the sums to maxima that are as large or larger. `by` turns logits into powers of two.
__device__ __forceinline__ void raise_to(Running &mine, float t_max, float s_max, float by)
{
    const float shrink = power_of_2((mine.t_max - t_max) * by);
    mine.t_sum *= shrink;
    mine.product *= shrink;
    mine.s_sum *= power_of_2((mine.s_max - s_max) * by);
    mine.t_max = t_max;
    mine.s_max = s_max;
}

__device__ __forceinline__ void add_one(Running &mine, float t, float s, float by, float t_shift, float s_shift)
{
    const float power = power_of_2(fmaf(t, by, t_shift));
    mine.t_sum += power;
    mine.product = fmaf(power, t - s, mine.product);
    mine.s_sum += power_of_2(fmaf(s, by, s_shift));
}

__device__ __forceinline__ void take(Running &mine, const uint4 (&teacher)[AHEAD], const uint4 (&student)[AHEAD],
                                     float by)
{
    raise_to(mine, fmaxf(mine.t_max, largest(teacher)), fmaxf(mine.s_max, largest(student)), by);
    const float t_shift = -mine.t_max * by, s_shift = -mine.s_max * by;
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 t = at(teacher[u], j), s = at(student[u], j);
            add_one(mine, t.x, s.x, by, t_shift, s_shift);
            add_one(mine, t.y, s.y, by, t_shift, s_shift);
        }
}

// The maxima of WIDTH lanes first, so that each lane changes its scale once; then the sums.
template <int WIDTH> __device__ __forceinline__ void lanes_merge(Running &mine, float by)
{
    float t_max = mine.t_max, s_max = mine.s_max;
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2) {
        t_max = fmaxf(t_max, __shfl_xor_sync(ALL, t_max, offset));
        s_max = fmaxf(s_max, __shfl_xor_sync(ALL, s_max, offset));
    }
    raise_to(mine, t_max, s_max, by);
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2) {
        mine.t_sum += __shfl_xor_sync(ALL, mine.t_sum, offset);
        mine.s_sum += __shfl_xor_sync(ALL, mine.s_sum, offset);
        mine.product += __shfl_xor_sync(ALL, mine.product, offset);
    }
}

// A thread loads four pieces of both rows before it uses one: their maxima are found on packed pairs, the sums change
// their scale once for all of them, and an element costs one multiply-add and one power.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    divergence(const bf16 *__restrict__ student, const bf16 *__restrict__ teacher, float *__restrict__ loss, int vocab,
               float temperature)
{
    __shared__ Running parts[WARPS];
    const size_t first = static_cast<size_t>(blockIdx.x) * vocab;
    const float by = 1.4426950408889634f / temperature;
    Running mine = {LOWEST, 0.0f, LOWEST, 0.0f, 0.0f};
    if (vocab % 8 == 0) {
        const uint4 *t = reinterpret_cast<const uint4 *>(teacher + first);
        const uint4 *s = reinterpret_cast<const uint4 *>(student + first);
        const int groups = vocab / 8;
        for (int i = threadIdx.x; i < groups; i += AHEAD * THREADS) {
            uint4 ts[AHEAD], ss[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                ts[u] = load(t, i + u * THREADS, groups);
                ss[u] = load(s, i + u * THREADS, groups);
            }
            take(mine, ts, ss, by);
        }
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS) {
            const float t = __bfloat162float(teacher[first + i]), s = __bfloat162float(student[first + i]);
            raise_to(mine, fmaxf(mine.t_max, t), fmaxf(mine.s_max, s), by);
            add_one(mine, t, s, by, -mine.t_max * by, -mine.s_max * by);
        }
    }
    lanes_merge<32>(mine, by);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    mine = parts[threadIdx.x % WARPS];
    lanes_merge<WARPS>(mine, by);
    if (threadIdx.x == 0) {
        const float teacher_log = fmaf(mine.t_max, by, log2f(mine.t_sum));
        const float student_log = fmaf(mine.s_max, by, log2f(mine.s_sum));
        const float bits = mine.product * by / mine.t_sum - teacher_log + student_log;
        loss[blockIdx.x] = bits * 0.6931471805599453f * temperature * temperature;
    }
}
