// A block a head: chunks of 32 steps come to shared memory ahead by cp.async, so that no step waits for memory. Four
// lanes share two columns of the state, which unpack keys and queries once for both. The state is kept divided by the
// decay since the chunk's begin, and queries meet it before the step's change: a step is three sums and one short chain.
#include <cuda_bf16.h>

#define DIM 64
#define LANES 4
#define ROWS (DIM / LANES)
#define COLS 2
#define THREADS (DIM / COLS * LANES)
#define CHUNK 32
#define STAGES 3
#define LINES (CHUNK * DIM / 8)
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

struct Stage {
    uint4 query[LINES], key[LINES], value[LINES];
};

__device__ __forceinline__ void fetch(uint4 *to, const bf16 *__restrict__ from, int lines)
{
#pragma unroll
    for (int line = threadIdx.x; line < LINES; line += THREADS) {
        const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to + line));
        const int bytes = line < lines ? 16 : 0;
        const uint4 *source = reinterpret_cast<const uint4 *>(from) + (line < lines ? line : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(source), "r"(bytes) : "memory");
    }
}

__device__ __forceinline__ void unpack(const uint4 *from, float (&to)[ROWS])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const uint4 bits = from[j];
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int w = 0; w < 4; w++) {
            to[8 * j + 2 * w] = __uint_as_float(words[w] << 16);
            to[8 * j + 2 * w + 1] = __uint_as_float(words[w] & 0xffff0000u);
        }
    }
}

__device__ __forceinline__ float dot(const float (&a)[ROWS], const float (&b)[ROWS])
{
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        sums[i % 4] = fmaf(a[i], b[i], sums[i % 4]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The sum over the four lanes that share a column.
__device__ __forceinline__ float column_sum(float value)
{
    value += __shfl_xor_sync(ALL, value, 1);
    return value + __shfl_xor_sync(ALL, value, 2);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    delta_rule(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
               const float *__restrict__ decay, const float *__restrict__ rate, bf16 *__restrict__ out, int length)
{
    __shared__ __align__(16) Stage stages[STAGES];
    // Of each step: the decay since the chunk's begin, its inverse, the rate, and query times key.
    __shared__ float4 numbers[CHUNK];
    const int part = threadIdx.x % LANES, pair = threadIdx.x / LANES, lane = threadIdx.x % 32;
    const size_t head = static_cast<size_t>(blockIdx.x) * length;
    const int chunks = (length + CHUNK - 1) / CHUNK;
    const auto start = [&](int chunk) {
        if (chunk < chunks) {
            const size_t from = (head + chunk * CHUNK) * DIM;
            const int lines = min(CHUNK, length - chunk * CHUNK) * (DIM / 8);
            Stage &stage = stages[chunk % STAGES];
            fetch(stage.query, q + from, lines);
            fetch(stage.key, k + from, lines);
            fetch(stage.value, v + from, lines);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float state[COLS][ROWS] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        start(s);
    float keep = lane < length ? decay[head + lane] : 1.0f, by = lane < length ? rate[head + lane] : 0.0f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const Stage &stage = stages[chunk % STAGES];
        const int steps = min(CHUNK, length - chunk * CHUNK);
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        start(chunk + STAGES - 1);

        // Lane t of each warp has step t's decay: their running product, unless it gets too small to divide by.
        keep = fmaxf(keep, 1e-30f);
        float product = keep;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float before = __shfl_up_sync(ALL, product, offset);
            product *= lane >= offset ? before : 1.0f;
        }
        const bool singly = __shfl_sync(ALL, product, 31) < 1e-6f;
        const float since = singly ? keep : product;
        float ours[ROWS], theirs[ROWS];
        unpack(stage.query + pair * 8 + 2 * part, ours);
        unpack(stage.key + pair * 8 + 2 * part, theirs);
        const float both = column_sum(dot(ours, theirs));
        const float step_since = __shfl_sync(ALL, since, pair), step_by = __shfl_sync(ALL, by, pair);
        if (part == 0)
            numbers[pair] = make_float4(step_since, 1.0f / step_since, step_by, both);
        const int next = (chunk + 1) * CHUNK + lane;
        keep = next < length ? decay[head + next] : 1.0f;
        by = next < length ? rate[head + next] : 0.0f;
        __syncthreads();

        bf16 *to = out + (head + chunk * CHUNK) * DIM + pair * COLS + part;
        const int stride = singly ? 1 : CHUNK;
        for (int first = 0; first < steps; first += stride) {
            const int end = min(first + stride, steps);
            float key[ROWS], query[ROWS];
            unpack(stage.key + first * 8 + 2 * part, key);
            unpack(stage.query + first * 8 + 2 * part, query);
            float4 now = numbers[first];
            const unsigned *values = reinterpret_cast<const unsigned *>(stage.value) + pair;
            unsigned two = values[first * (DIM / 2)];
#pragma unroll 2
            for (int t = first; t < end; t++) {
                // What the next step needs is read and unpacked meanwhile.
                const int ahead = min(t + 1, CHUNK - 1);
                float next_key[ROWS], next_query[ROWS];
                unpack(stage.key + ahead * 8 + 2 * part, next_key);
                unpack(stage.query + ahead * 8 + 2 * part, next_query);
                const float4 then = numbers[ahead];
                const unsigned next_two = values[ahead * (DIM / 2)];

                const float known0 = column_sum(dot(key, state[0])), known1 = column_sum(dot(key, state[1]));
                const float asked0 = dot(query, state[0]), asked1 = dot(query, state[1]);
                // Even lanes add up the first column, odd ones the second.
                const bool odd = part % 2;
                float asked = (odd ? asked1 : asked0) + __shfl_xor_sync(ALL, odd ? asked0 : asked1, 1);
                asked += __shfl_xor_sync(ALL, asked, 2);
                const float change0 = now.z * fmaf(-now.x, known0, __uint_as_float(two << 16));
                const float change1 = now.z * fmaf(-now.x, known1, __uint_as_float(two & 0xffff0000u));
                const float scaled0 = change0 * now.y, scaled1 = change1 * now.y;
                const bf16 answer = __float2bfloat16(fmaf(now.x, asked, now.w * (odd ? change1 : change0)));
                if (part < COLS)
                    to[t * DIM] = answer;
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    state[0][i] = fmaf(key[i], scaled0, state[0][i]);
                    state[1][i] = fmaf(key[i], scaled1, state[1][i]);
                    key[i] = next_key[i];
                    query[i] = next_query[i];
                }
                if (t + 1 < end)
                    now = then;
                two = next_two;
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                state[0][i] *= now.x;
                state[1][i] *= now.x;
            }
        }
    }
}
