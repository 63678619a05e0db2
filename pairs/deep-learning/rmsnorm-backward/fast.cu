// Three rows a block are on their way to shared memory while one is reduced and written; each thread reads only what it
// copied, so that the row's one barrier is that of its sums.
#include <cuda_fp16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define HELD 2
#define LANES 16
#define STAGES 4
#define ALL 0xffffffffu

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
}

__device__ __forceinline__ float2 block_sums(float2 value, int turn)
{
    __shared__ float2 parts[2][WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[turn][threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[turn][0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) {
        value.x += parts[turn][warp].x;
        value.y += parts[turn][warp].y;
    }
    return value;
}

// What this thread needs of a row, to places that no other thread reads.
__device__ __forceinline__ void fetch(uint4 *slot, const half *__restrict__ x, const half *__restrict__ dy, int row,
                                      int rows, int groups)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(slot));
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        const size_t at = (static_cast<size_t>(row) * groups + i) * 8;
        if (row < rows && i < groups) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 2 * u * THREADS * 16), "l"(x + at)
                         : "memory");
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (2 * u + 1) * THREADS * 16), "l"(dy + at)
                         : "memory");
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void rows_held(const half *__restrict__ x, const half *__restrict__ dy,
                                          const half *__restrict__ weight, half *__restrict__ dx,
                                          float *__restrict__ own_row, int rows, int cols, float eps)
{
    extern __shared__ uint4 room[];
    const int groups = cols / 8, stride = gridDim.x;
    const float share = 1.0f / cols;
    const uint4 none = make_uint4(0, 0, 0, 0);
    uint4 *own_room = room + threadIdx.x;
    uint4 by[HELD];
    float2 sum[HELD][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        fetch(own_room + s * 2 * HELD * THREADS, x, dy, blockIdx.x + s * stride, rows, groups);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        by[u] = i < groups ? reinterpret_cast<const uint4 *>(weight)[i] : none;
    }
    int turn = 0, stage = 0;
    for (int row = blockIdx.x; row < rows; row += stride, turn ^= 1, stage = (stage + 1) % STAGES) {
        uint4 a[HELD], g[HELD];
        float2 sums = make_float2(0.0f, 0.0f);
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const bool inside = static_cast<int>(threadIdx.x) + u * THREADS < groups;
            const uint4 *slot = own_room + (stage * HELD + u) * 2 * THREADS;
            a[u] = inside ? slot[0] : none;
            g[u] = inside ? slot[THREADS] : none;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(a[u], j), d = at(g[u], j), w = at(by[u], j);
                sums.x = fmaf(v.x, v.x, fmaf(v.y, v.y, sums.x));
                sums.y = fmaf(d.x * w.x, v.x, fmaf(d.y * w.y, v.y, sums.y));
            }
        }
        fetch(own_room + (stage + STAGES - 1) % STAGES * 2 * HELD * THREADS, x, dy, row + (STAGES - 1) * stride, rows,
              groups);
        sums = block_sums(sums, turn);
        const float scale = rsqrtf(fmaf(sums.x, share, eps)), back = -scale * scale * scale * (sums.y * share);
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            uint4 result;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(a[u], j), d = at(g[u], j), w = at(by[u], j);
                const float2 scaled = make_float2(d.x * scale, d.y * scale);
                sum[u][j].x = fmaf(scaled.x, v.x, sum[u][j].x);
                sum[u][j].y = fmaf(scaled.y, v.y, sum[u][j].y);
                reinterpret_cast<half2 *>(&result)[j] =
                    __floats2half2_rn(fmaf(scaled.x, w.x, back * v.x), fmaf(scaled.y, w.y, back * v.y));
            }
            if (i < groups)
                __stcs(reinterpret_cast<uint4 *>(dx) + static_cast<size_t>(row) * groups + i, result);
        }
    }
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= groups)
            continue;
        float4 *to = reinterpret_cast<float4 *>(own_row) + 2 * i;
        to[0] = make_float4(sum[u][0].x, sum[u][0].y, sum[u][1].x, sum[u][1].y);
        to[1] = make_float4(sum[u][2].x, sum[u][2].y, sum[u][3].x, sum[u][3].y);
    }
}

__device__ __forceinline__ void rows_any(const half *__restrict__ x, const half *__restrict__ dy,
                                         const half *__restrict__ weight, half *__restrict__ dx,
                                         float *__restrict__ own_row, int rows, int cols, float eps)
{
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        const size_t first = static_cast<size_t>(row) * cols;
        float2 sums = make_float2(0.0f, 0.0f);
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __half2float(x[first + i]);
            sums.x = fmaf(v, v, sums.x);
            sums.y = fmaf(__half2float(dy[first + i]) * __half2float(weight[i]), v, sums.y);
        }
        sums = block_sums(sums, turn);
        const float scale = rsqrtf(sums.x / cols + eps), back = scale * scale * scale * sums.y / cols;
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __half2float(x[first + i]), d = __half2float(dy[first + i]);
            own_row[i] = (row == blockIdx.x ? 0.0f : own_row[i]) + d * v * scale;
            dx[first + i] = __float2half(scale * d * __half2float(weight[i]) - back * v);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rows_backward(const half *__restrict__ x, const half *__restrict__ dy, const half *__restrict__ weight,
                  half *__restrict__ dx, float *__restrict__ partial, int rows, int cols, float eps)
{
    float *own_row = partial + static_cast<size_t>(blockIdx.x) * cols;
    if (cols % 8 == 0 && cols <= 8 * HELD * THREADS)
        rows_held(x, dy, weight, dx, own_row, rows, cols, eps);
    else
        rows_any(x, dy, weight, dx, own_row, rows, cols, eps);
}

extern "C" __global__ void columns(const float *__restrict__ partial, float *__restrict__ dweight, int parts, int cols)
{
    __shared__ float sums[LANES][32];
    const int i = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (i < cols)
#pragma unroll 8
        for (int part = threadIdx.y; part < parts; part += LANES)
            sum += partial[static_cast<size_t>(part) * cols + i];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || i >= cols)
        return;
#pragma unroll
    for (int lane = 1; lane < LANES; lane++)
        sum += sums[lane][threadIdx.x];
    dweight[i] = sum;
}
