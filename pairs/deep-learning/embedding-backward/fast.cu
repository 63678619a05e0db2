#include <cuda_bf16.h>

#define SCANNERS 1024
#define THREADS 128
#define RUN 32
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

// One block: counts become the places where the tokens' lists begin, four counts a thread at a time.
extern "C" __global__ void __launch_bounds__(SCANNERS) scan_counts(int *__restrict__ counts, int vocab)
{
    __shared__ int sums[SCANNERS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int before = 0;
    for (int first = 0; first < vocab; first += 4 * SCANNERS) {
        const int i = first + 4 * threadIdx.x;
        int own[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            own[j] = i + j < vocab ? counts[i + j] : 0;
        const int sum = own[0] + own[1] + own[2] + own[3], upto = inclusive(sum);
        if (lane == 31)
            sums[warp] = upto;
        __syncthreads();
        const int whole = inclusive(sums[lane]);
        int at = before + upto - sum + (warp > 0 ? __shfl_sync(ALL, whole, warp - 1) : 0);
        before += __shfl_sync(ALL, whole, 31);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (i + j < vocab)
                counts[i + j] = at;
            at += own[j];
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

// RUN entries of the sorted order a block, eight columns a thread.
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
    for (int e = 0; e < size; e += 4) {
        uint4 held[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (e + u < size)
                held[u] = __ldcs(reinterpret_cast<const uint4 *>(gradient + static_cast<size_t>(own[e + u].y) * dim + col));
#pragma unroll
        for (int u = 0; u < 4; u++) {
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
