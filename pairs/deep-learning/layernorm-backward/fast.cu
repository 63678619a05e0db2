#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define HELD 2
#define LANES 16
#define STAGES 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ void unpack(const uint4 &bits, float (&to)[8])
{
    const unsigned *words = reinterpret_cast<const unsigned *>(&bits);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        to[2 * j] = __uint_as_float(words[j] << 16);
        to[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
    }
}

__device__ __forceinline__ uint4 pack(const float (&from)[8])
{
    uint4 bits;
    __nv_bfloat162 *part = reinterpret_cast<__nv_bfloat162 *>(&bits);
#pragma unroll
    for (int j = 0; j < 4; j++)
        part[j] = __floats2bfloat162_rn(from[2 * j], from[2 * j + 1]);
    return bits;
}

// Both sums over the block. Calls in turn use different halves of the shared array, so one barrier is enough.
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

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// What this thread needs of a row, to a place that no other thread reads: nobody waits for its arrival but the thread.
__device__ __forceinline__ void fetch(uint4 *slot, const bf16 *__restrict__ x, const bf16 *__restrict__ dy, int row,
                                      int rows, int groups)
{
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        const size_t at = static_cast<size_t>(row) * groups + i;
        if (row < rows && i < groups) {
            copy_async(slot + 2 * u * THREADS, reinterpret_cast<const uint4 *>(x) + at);
            copy_async(slot + (2 * u + 1) * THREADS, reinterpret_cast<const uint4 *>(dy) + at);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Three rows are on their way to shared memory while one is reduced and written.
__device__ __forceinline__ void rows_held(const bf16 *__restrict__ x, const bf16 *__restrict__ dy,
                                          const bf16 *__restrict__ weight, const float *__restrict__ mean,
                                          const float *__restrict__ rstd, bf16 *__restrict__ dx,
                                          float *__restrict__ partial, int rows, int cols)
{
    extern __shared__ uint4 room[];
    const int groups = cols / 8, stride = gridDim.x;
    const float share = 1.0f / cols;
    const uint4 none = make_uint4(0, 0, 0, 0);
    uint4 *own_room = room + threadIdx.x;
    uint4 by[HELD];
    float scaled[HELD][8] = {}, plain[HELD][8] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        fetch(own_room + s * 2 * HELD * THREADS, x, dy, blockIdx.x + s * stride, rows, groups);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        by[u] = i < groups ? reinterpret_cast<const uint4 *>(weight)[i] : none;
    }
    float next_middle = mean[blockIdx.x], next_scale = rstd[blockIdx.x];
    int turn = 0, stage = 0;
    for (int row = blockIdx.x; row < rows; row += stride, turn ^= 1, stage = (stage + 1) % STAGES) {
        const float middle = next_middle, scale = next_scale, offset = -middle * scale;
        const int next = min(row + stride, rows - 1);
        next_middle = mean[next];
        next_scale = rstd[next];
        float2 sums = make_float2(0.0f, 0.0f);
        uint4 own[HELD], grad[HELD];
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const bool inside = static_cast<int>(threadIdx.x) + u * THREADS < groups;
            const uint4 *slot = own_room + (stage * HELD + u) * 2 * THREADS;
            own[u] = inside ? slot[0] : none;
            grad[u] = inside ? slot[THREADS] : none;
            float a[8], g[8], w[8];
            unpack(own[u], a);
            unpack(grad[u], g);
            unpack(by[u], w);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float normal = fmaf(a[j], scale, offset), weighted = g[j] * w[j];
                scaled[u][j] = fmaf(g[j], normal, scaled[u][j]);
                plain[u][j] += g[j];
                sums.x += weighted;
                sums.y = fmaf(weighted, normal, sums.y);
            }
        }
        fetch(own_room + (stage + STAGES - 1) % STAGES * 2 * HELD * THREADS, x, dy, row + (STAGES - 1) * stride, rows,
              groups);
        sums = block_sums(sums, turn);
        // scale * (weighted - first - normal * second), with all that does not depend on the element put together.
        const float slope = -scale * scale * (sums.y * share);
        const float constant = -scale * (sums.x * share) - slope * middle;
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            if (i >= groups)
                continue;
            float a[8], g[8], w[8];
            unpack(own[u], a);
            unpack(grad[u], g);
            unpack(by[u], w);
#pragma unroll
            for (int j = 0; j < 8; j++)
                a[j] = fmaf(g[j] * w[j], scale, fmaf(a[j], slope, constant));
            __stcs(reinterpret_cast<uint4 *>(dx) + static_cast<size_t>(row) * groups + i, pack(a));
        }
    }
    float *own_row = partial + static_cast<size_t>(blockIdx.x) * 2 * cols;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= groups)
            continue;
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            *reinterpret_cast<float4 *>(own_row + 8 * i + j) =
                make_float4(scaled[u][j], scaled[u][j + 1], scaled[u][j + 2], scaled[u][j + 3]);
            *reinterpret_cast<float4 *>(own_row + cols + 8 * i + j) =
                make_float4(plain[u][j], plain[u][j + 1], plain[u][j + 2], plain[u][j + 3]);
        }
    }
}

__device__ __forceinline__ void rows_any(const bf16 *__restrict__ x, const bf16 *__restrict__ dy,
                                         const bf16 *__restrict__ weight, const float *__restrict__ mean,
                                         const float *__restrict__ rstd, bf16 *__restrict__ dx,
                                         float *__restrict__ partial, int rows, int cols)
{
    float *own_row = partial + static_cast<size_t>(blockIdx.x) * 2 * cols;
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        const size_t first = static_cast<size_t>(row) * cols;
        const float middle = mean[row], scale = rstd[row];
        float2 sums = make_float2(0.0f, 0.0f);
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float grad = __bfloat162float(dy[first + i]), g = grad * __bfloat162float(weight[i]);
            const float normal = (__bfloat162float(x[first + i]) - middle) * scale;
            own_row[i] = (row == blockIdx.x ? 0.0f : own_row[i]) + grad * normal;
            own_row[cols + i] = (row == blockIdx.x ? 0.0f : own_row[cols + i]) + grad;
            sums.x += g;
            sums.y += g * normal;
        }
        sums = block_sums(sums, turn);
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float g = __bfloat162float(dy[first + i]) * __bfloat162float(weight[i]);
            const float normal = (__bfloat162float(x[first + i]) - middle) * scale;
            dx[first + i] = __float2bfloat16(scale * (g - sums.x / cols - normal * (sums.y / cols)));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rows_backward(const bf16 *__restrict__ x, const bf16 *__restrict__ dy, const bf16 *__restrict__ weight,
                  const float *__restrict__ mean, const float *__restrict__ rstd, bf16 *__restrict__ dx,
                  float *__restrict__ partial, int rows, int cols)
{
    if (cols % 8 == 0 && cols <= 8 * HELD * THREADS)
        rows_held(x, dy, weight, mean, rstd, dx, partial, rows, cols);
    else
        rows_any(x, dy, weight, mean, rstd, dx, partial, rows, cols);
}

// One column a thread of x, every sixteenth partial row a thread of y.
extern "C" __global__ void columns(const float *__restrict__ partial, float *__restrict__ dweight,
                                   float *__restrict__ dbias, int parts, int cols)
{
    __shared__ float sums[LANES][32];
    const int i = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (i < 2 * cols)
#pragma unroll 8
        for (int part = threadIdx.y; part < parts; part += LANES)
            sum += partial[static_cast<size_t>(part) * 2 * cols + i];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || i >= 2 * cols)
        return;
#pragma unroll
    for (int lane = 1; lane < LANES; lane++)
        sum += sums[lane][threadIdx.x];
    (i < cols ? dweight : dbias - cols)[i] = sum;
}
