#include <cuda_bf16.h>

#define SCANNERS 1024
#define THREADS 128
#define RUN 32
#define AHEAD 8
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

extern "C" __global__ void count_tokens(const int *__restrict__ tokens, int *__restrict__ counts, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int token = i < count ? tokens[i] : -1;
    const unsigned same = __match_any_sync(ALL, token);
    if (token >= 0 && __ffs(same) - 1 == threadIdx.x % 32)
        atomicAdd(&counts[token], __popc(same));
}

__device__ __forceinline__ int inclusive(int value)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(ALL, value, offset);
        value += threadIdx.x % 32 >= offset ? other : 0;
    }
    return value;
}

// One block: counts become the places where the tokens' lists begin, 32 counts a thread at a time, so that even large
// vocabularies take one round.
extern "C" __global__ void __launch_bounds__(SCANNERS) scan_counts(int *__restrict__ counts, int vocab)
{
    constexpr int CHUNKS = 8;
    __shared__ int sums[SCANNERS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int before = 0;
    for (int first = 0; first < vocab; first += CHUNKS * 4 * SCANNERS) {
        const int begin = first + warp * (CHUNKS * 128) + lane * 4;
        int4 own[CHUNKS];
        int start[CHUNKS], running = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = begin + c * 128;
            if (i + 3 < vocab)
                own[c] = *reinterpret_cast<const int4 *>(counts + i);
            else
                own[c] = make_int4(i < vocab ? counts[i] : 0, i + 1 < vocab ? counts[i + 1] : 0,
                                   i + 2 < vocab ? counts[i + 2] : 0, 0);
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int sum = own[c].x + own[c].y + own[c].z + own[c].w, upto = inclusive(sum);
            start[c] = running + upto - sum;
            running += __shfl_sync(ALL, upto, 31);
        }
        if (lane == 0)
            sums[warp] = running;
        __syncthreads();
        const int whole = inclusive(sums[lane]);
        const int earlier = before + (warp > 0 ? __shfl_sync(ALL, whole, warp - 1) : 0);
        before += __shfl_sync(ALL, whole, 31);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = begin + c * 128;
            const int at[4] = {earlier + start[c], earlier + start[c] + own[c].x, earlier + start[c] + own[c].x + own[c].y,
                               earlier + start[c] + own[c].x + own[c].y + own[c].z};
            if (i + 3 < vocab) {
                *reinterpret_cast<int4 *>(counts + i) = make_int4(at[0], at[1], at[2], at[3]);
            } else {
#pragma unroll
                for (int j = 0; j < 3; j++)
                    if (i + j < vocab)
                        counts[i + j] = at[j];
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void place(const int *__restrict__ tokens, int *__restrict__ next, int2 *__restrict__ order,
                                 int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const int token = i < count ? tokens[i] : -1;
    const unsigned same = __match_any_sync(ALL, token);
    const int leader = __ffs(same) - 1;
    int at = 0;
    if (token >= 0 && leader == lane)
        at = atomicAdd(&next[token], __popc(same));
    at = __shfl_sync(ALL, at, leader);
    if (token >= 0)
        order[at + __popc(same & ((1u << lane) - 1))] = make_int2(token, i);
}

__device__ __forceinline__ void add(float (&sum)[8], const uint4 &bits)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
        sum[2 * j] += pair.x;
        sum[2 * j + 1] += pair.y;
    }
}

// A list that ends within the block's run is added by plain stores, others by one vector reduction a block.
__device__ __forceinline__ void flush(float *to, float (&sum)[8], bool alone)
{
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        if (alone) {
            float4 old = *reinterpret_cast<float4 *>(to + j);
            *reinterpret_cast<float4 *>(to + j) =
                make_float4(old.x + sum[j], old.y + sum[j + 1], old.z + sum[j + 2], old.w + sum[j + 3]);
        } else {
            asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + j), "f"(sum[j]), "f"(sum[j + 1]),
                         "f"(sum[j + 2]), "f"(sum[j + 3])
                         : "memory");
        }
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        sum[j] = 0.0f;
}

// RUN entries of the sorted order a block, eight columns a thread, the gradients of AHEAD entries on their way at once.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_runs(const int2 *__restrict__ order, const bf16 *__restrict__ gradient, float *__restrict__ table, int count,
             int dim)
{
    __shared__ int2 own[RUN];
    const int begin = blockIdx.x * RUN, size = min(RUN, count - begin);
    if (threadIdx.x < size)
        own[threadIdx.x] = order[begin + threadIdx.x];
    __syncthreads();
    if (dim % 8 != 0) {
        for (int i = blockIdx.y * THREADS * 8 + threadIdx.x; i < min(dim, (blockIdx.y + 1) * THREADS * 8); i += THREADS)
            for (int e = 0; e < size; e++)
                atomicAdd(&table[static_cast<size_t>(own[e].x) * dim + i],
                          __bfloat162float(gradient[static_cast<size_t>(own[e].y) * dim + i]));
        return;
    }
    const int col = (blockIdx.y * THREADS + threadIdx.x) * 8;
    if (col >= dim)
        return;
    const bool open_begin = begin > 0 && order[begin - 1].x == own[0].x;
    const bool open_end = begin + size < count && order[begin + size].x == own[size - 1].x;
    float sum[8] = {};
    bool first = true;
    for (int e = 0; e < size; e += AHEAD) {
        uint4 held[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (e + u < size)
                held[u] = __ldcs(reinterpret_cast<const uint4 *>(gradient + static_cast<size_t>(own[e + u].y) * dim + col));
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (e + u >= size)
                break;
            add(sum, held[u]);
            const bool last = e + u == size - 1;
            if (last || own[e + u + 1].x != own[e + u].x) {
                flush(table + static_cast<size_t>(own[e + u].x) * dim + col, sum, !(first && open_begin) && !(last && open_end));
                first = false;
            }
        }
    }
}
