#include <cuda_bf16.h>

#define DIM 64
#define LANES 4
#define ROWS (DIM / LANES)
#define COLS 8
#define AHEAD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// What one step needs: this lane's sixteen elements of query and key, and three numbers.
struct Step {
    uint4 query[2], key[2];
    float value, decay, rate;
};

struct Sequences {
    const bf16 *q, *k, *v;
    const float *decay, *rate;
};

__device__ __forceinline__ Step load(const Sequences &from, size_t step, int part, int col)
{
    Step own;
    const uint4 *query = reinterpret_cast<const uint4 *>(from.q + step * DIM) + 2 * part;
    const uint4 *key = reinterpret_cast<const uint4 *>(from.k + step * DIM) + 2 * part;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        own.query[j] = query[j];
        own.key[j] = key[j];
    }
    own.value = __bfloat162float(from.v[step * DIM + col]);
    own.decay = from.decay[step];
    own.rate = from.rate[step];
    return own;
}

__device__ __forceinline__ void unpack(const uint4 (&bits)[2], float (&to)[ROWS])
{
    const __nv_bfloat162 *part = reinterpret_cast<const __nv_bfloat162 *>(bits);
#pragma unroll
    for (int j = 0; j < ROWS / 2; j++) {
        const float2 pair = __bfloat1622float2(part[j]);
        to[2 * j] = pair.x;
        to[2 * j + 1] = pair.y;
    }
}

// The sum over the four lanes of a column.
__device__ __forceinline__ float column_sum(float value)
{
    value += __shfl_xor_sync(ALL, value, 1);
    return value + __shfl_xor_sync(ALL, value, 2);
}

__device__ __forceinline__ float dot(const float (&a)[ROWS], const float (&b)[ROWS])
{
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        sums[i % 4] = fmaf(a[i], b[i], sums[i % 4]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A warp eight columns of a head's state, four lanes a column: no barrier, and steps are loaded ahead.
extern "C" __global__ void __launch_bounds__(32)
    delta_rule(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
               const float *__restrict__ decay, const float *__restrict__ rate, bf16 *__restrict__ out, int length)
{
    const int part = threadIdx.x % LANES, col = blockIdx.x * COLS + threadIdx.x / LANES;
    const size_t first = static_cast<size_t>(blockIdx.y) * length;
    const Sequences from = {q, k, v, decay, rate};
    float state[ROWS] = {};
    Step ahead[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (u < length)
            ahead[u] = load(from, first + u, part, col);
    for (int t = 0; t < length; t += AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (t + u >= length)
                break;
            float key[ROWS], query[ROWS];
            unpack(ahead[u].key, key);
            unpack(ahead[u].query, query);
            const float keep = ahead[u].decay, by = ahead[u].rate, value = ahead[u].value;
            if (t + u + AHEAD < length)
                ahead[u] = load(from, first + t + u + AHEAD, part, col);
            const float change = by * fmaf(-keep, column_sum(dot(key, state)), value);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                state[i] = fmaf(key[i], change, keep * state[i]);
            const float sum = column_sum(dot(query, state));
            if (part == 0)
                out[(first + t + u) * DIM + col] = __float2bfloat16(sum);
        }
    }
}
