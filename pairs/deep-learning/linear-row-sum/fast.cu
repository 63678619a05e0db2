// The sum over the features commutes with the product. A block has a slab of 128 columns and a share of the rows of x,
// whose first part is on its way to shared memory while the cluster adds up the slab of the weights: x and w come from
// memory at the same time, not one after the other. Rows of different slabs are added up at the end.
#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define SPLITS 8
#define CLUSTER 4
#define COLUMNS 128
#define STEP (THREADS / 16)
#define STEPS 8
#define GROUP (STEP * STEPS)
#define AHEAD 3
#define EARLY 16
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

// A thread copies what it will read itself: eight columns of every sixteenth row of a group, of which `left` are left.
__device__ __forceinline__ void copy_group(unsigned slot, const bf16 *__restrict__ from, size_t step, int left)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++, from += step)
        if (s * STEP < left)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot + s * THREADS * 16), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void add_eight(float (&sum)[8], const uint4 &own)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        sum[2 * j] += at(own, j).x;
        sum[2 * j + 1] += at(own, j).y;
    }
}

// A number to the same place in another block of the cluster, counted by the barrier there: no fence is needed.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, int block, float value)
{
    asm volatile("{ .reg .b32 place, counter;\n"
                 "mapa.shared::cluster.u32 place, %0, %2;\n"
                 "mapa.shared::cluster.u32 counter, %1, %2;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [place], %3, [counter]; }" ::"r"(to),
                 "r"(barrier), "r"(block), "f"(value)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    slab_dots(const bf16 *__restrict__ x, const bf16 *__restrict__ w, float *__restrict__ parts, int m, int n, int k)
{
    extern __shared__ uint4 ring[];
    __shared__ float warps[WARPS][COLUMNS], shares[CLUSTER][COLUMNS];
    __shared__ unsigned long long ready;
    const int lane = threadIdx.x % 32, column = blockIdx.y * COLUMNS + 8 * (lane % 16);
    const int share = (m + SPLITS - 1) / SPLITS, begin = blockIdx.x * share, end = min(m, begin + share);
    const int rank = blockIdx.x % CLUSTER, quarter = (n + CLUSTER - 1) / CLUSTER;
    const bool inside = column < k;
    const int first = begin + threadIdx.x / 16;
    const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&ready));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(barrier),
                     "r"(CLUSTER * COLUMNS * 4)
                     : "memory");
    }
    // Nobody writes to a block that has not started.
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    // The slab of the weights first, a quarter of the rows a block, then x behind it.
    const size_t step = static_cast<size_t>(STEP) * k;
    const int start = rank * quarter + threadIdx.x / 16;
    const bf16 *from = w + static_cast<size_t>(start) * k + column;
    int left = inside ? min(n, (rank + 1) * quarter) - start : 0;
    uint4 own[EARLY];
#pragma unroll
    for (int e = 0; e < EARLY; e++, from += step)
        own[e] = e * STEP < left ? __ldg(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
    const bf16 *ahead = x + static_cast<size_t>(first) * k + column;
    const unsigned mine = static_cast<unsigned>(__cvta_generic_to_shared(ring + threadIdx.x));
    const int rows = inside ? end - first : 0;
#pragma unroll
    for (int g = 0; g < AHEAD; g++, ahead += STEPS * step)
        copy_group(mine + g * STEPS * THREADS * 16, ahead, step, rows - g * GROUP);
    float weights[8] = {};
#pragma unroll
    for (int e = 0; e < EARLY; e++)
        add_eight(weights, own[e]);
#pragma unroll 8
    for (left -= EARLY * STEP; left > 0; left -= STEP, from += step)
        add_eight(weights, __ldg(reinterpret_cast<const uint4 *>(from)));
#pragma unroll
    for (int j = 0; j < 8; j++)
        weights[j] += __shfl_xor_sync(ALL, weights[j], 16);
    if (lane < 16) {
        float4 *to = reinterpret_cast<float4 *>(&warps[threadIdx.x / 32][8 * lane]);
        to[0] = make_float4(weights[0], weights[1], weights[2], weights[3]);
        to[1] = make_float4(weights[4], weights[5], weights[6], weights[7]);
    }
    __syncthreads();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < COLUMNS) {
        float total = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            total += warps[warp][threadIdx.x];
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&shares[rank][threadIdx.x]));
#pragma unroll
        for (int block = 0; block < CLUSTER; block++)
            send(to, barrier, block, total);
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
#pragma unroll
    for (int j = 0; j < 8; j++)
        weights[j] = (shares[0][8 * (lane % 16) + j] + shares[1][8 * (lane % 16) + j]) +
                     (shares[2][8 * (lane % 16) + j] + shares[3][8 * (lane % 16) + j]);
    for (int g = 0; begin + g * GROUP < end; g++, ahead += STEPS * step) {
        const int slot = g % AHEAD * STEPS * THREADS;
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        float sums[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            sums[s] = 0.0f;
            if (s * STEP < rows - g * GROUP) {
                const uint4 eight = ring[slot + s * THREADS + threadIdx.x];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sums[s] = fmaf(at(eight, j).x, weights[2 * j], fmaf(at(eight, j).y, weights[2 * j + 1], sums[s]));
            }
        }
        copy_group(mine + slot * 16, ahead, step, rows - (g + AHEAD) * GROUP);
        // Sums over 16 lanes: at each exchange a lane keeps half of its rows, at the last it has one.
#pragma unroll
        for (int distance = STEPS / 2; distance > 0; distance /= 2) {
            const bool upper = lane & distance;
#pragma unroll
            for (int s = 0; s < distance; s++) {
                const float other = __shfl_xor_sync(ALL, upper ? sums[s] : sums[s + distance], distance);
                sums[s] = (upper ? sums[s + distance] : sums[s]) + other;
            }
        }
        sums[0] += __shfl_xor_sync(ALL, sums[0], 8);
        const int row = first + g * GROUP + lane % STEPS * STEP;
        if (lane % 16 < STEPS && row < end)
            parts[static_cast<size_t>(blockIdx.y) * m + row] = sums[0];
    }
}

extern "C" __global__ void __launch_bounds__(128)
    finish(const float *__restrict__ parts, const float *__restrict__ bias, float *__restrict__ y, int slabs, int m, int n,
           float scale)
{
    __shared__ float warps[4];
    const int row = blockIdx.x * 128 + threadIdx.x;
    float sum = 0.0f, whole = 0.0f;
#pragma unroll 16
    for (int slab = 0; slab < slabs; slab++)
        sum += row < m ? parts[static_cast<size_t>(slab) * m + row] : 0.0f;
#pragma unroll 8
    for (int i = threadIdx.x; i < n; i += 128)
        whole += bias[i];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        whole += __shfl_xor_sync(ALL, whole, offset);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = whole;
    __syncthreads();
    if (row < m)
        y[row] = (sum + (warps[0] + warps[1]) + (warps[2] + warps[3])) * scale;
}
