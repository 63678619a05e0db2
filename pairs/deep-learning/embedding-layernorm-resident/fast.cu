#include <cuda_bf16.h>

#define ROWS 4
#define LONGEST 1024
#define AHEAD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void row_any(const bf16 *__restrict__ word, const bf16 *__restrict__ position,
                                        const float *__restrict__ weight, const float *__restrict__ bias,
                                        bf16 *__restrict__ out, int dim, int lane, float eps)
{
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < dim; i += 32)
        sum += __bfloat162float(word[i]) + __bfloat162float(position[i]);
    const float mean = warp_sum(sum) / dim;
    for (int i = lane; i < dim; i += 32) {
        const float d = __bfloat162float(word[i]) + __bfloat162float(position[i]) - mean;
        squares = fmaf(d, d, squares);
    }
    const float rstd = rsqrtf(warp_sum(squares) / dim + eps);
    for (int i = lane; i < dim; i += 32) {
        const float d = __bfloat162float(word[i]) + __bfloat162float(position[i]) - mean;
        out[i] = __float2bfloat16(fmaf(d * rstd, weight[i], bias[i]));
    }
}

// A warp a position, for every `gridDim.y`-th row of the batch: two rows at a time, which share what they read of the
// block's weights and biases in shared memory. The position's embedding stays in registers, and the next AHEAD words
// are on their way to the warp's ring, where each lane reads only what it copied.
template <int HELD>
__global__ void __launch_bounds__(32 * ROWS)
    embed(const int *__restrict__ tokens, const bf16 *__restrict__ table, const bf16 *__restrict__ positions,
          const float *__restrict__ weight, const float *__restrict__ bias, bf16 *__restrict__ out, int batch,
          int length, int dim, float eps)
{
    __shared__ uint4 rings[ROWS][AHEAD][32 * HELD];
    __shared__ float4 scales[HELD][2][32], shifts[HELD][2][32];
    const int position = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32, groups = dim / 8;
    const bool any = dim % 8 != 0 || dim > LONGEST;
    if (!any) {
        for (int i = threadIdx.x; i < dim / 4; i += 32 * ROWS) {
            const int u = i / 64, half = i % 2, at_lane = i / 2 % 32;
            scales[u][half][at_lane] = reinterpret_cast<const float4 *>(weight)[i];
            shifts[u][half][at_lane] = reinterpret_cast<const float4 *>(bias)[i];
        }
        __syncthreads();
    }
    if (position >= length)
        return;
    const bf16 *there = positions + static_cast<size_t>(position) * dim;
    if (any) {
        for (int b = blockIdx.y; b < batch; b += gridDim.y) {
            const int row = b * length + position;
            row_any(table + static_cast<size_t>(tokens[row]) * dim, there, weight, bias,
                    out + static_cast<size_t>(row) * dim, dim, lane, eps);
        }
        return;
    }
    const int rows = (batch - static_cast<int>(blockIdx.y) + gridDim.y - 1) / gridDim.y;
    uint4(*const ring)[32 * HELD] = rings[threadIdx.x / 32];
    // A lane keeps the token of one row in 32; `fetching` is the next row whose word is asked for. A copy group is
    // committed even if no row is left.
    int token = 0, fetching = 0;
    auto fetch = [&]() {
        if (fetching % 32 == 0 && fetching + lane < rows)
            token = tokens[(blockIdx.y + (fetching + lane) * gridDim.y) * length + position];
        const int wanted = __shfl_sync(ALL, token, fetching % 32);
        if (fetching < rows) {
            const uint4 *word = reinterpret_cast<const uint4 *>(table + static_cast<size_t>(wanted) * dim) + lane;
            const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(ring[fetching % AHEAD] + lane));
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (lane + 32 * u < groups)
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 512 * u), "l"(word + 32 * u)
                                 : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        fetching++;
    };
#pragma unroll 1
    for (int r = 0; r < AHEAD; r++)
        fetch();
    uint4 add[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++)
        add[u] = lane + 32 * u < groups ? reinterpret_cast<const uint4 *>(there)[lane + 32 * u]
                                        : make_uint4(0, 0, 0, 0);
    const float share_of_one = 1.0f / dim;
    const size_t stride = static_cast<size_t>(gridDim.y) * length * dim;
    bf16 *row = out + (static_cast<size_t>(blockIdx.y) * length + position) * dim;
    for (int r = 0; r < rows; r += 2) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
        // The last row of an odd number is taken twice and written once.
        const int slots[2] = {r % AHEAD, min(r + 1, rows - 1) % AHEAD};
        // Sums of the distance from the row's first value and of its square: a mean far from zero cancels nothing.
        float value[2][HELD][8], pivot[2], sum[2] = {0.0f, 0.0f}, squares[2] = {0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint4 bits = lane < groups ? ring[slots[k]][lane] : make_uint4(0, 0, 0, 0);
            pivot[k] = __shfl_sync(ALL, at(bits, 0).x + at(add[0], 0).x, 0);
        }
#pragma unroll
        for (int u = 0; u < HELD; u++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                if (lane + 32 * u >= groups)
                    continue;
                const uint4 bits = ring[slots[k]][lane + 32 * u];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float left = at(bits, j).x + at(add[u], j).x - pivot[k];
                    const float right = at(bits, j).y + at(add[u], j).y - pivot[k];
                    value[k][u][2 * j] = left;
                    value[k][u][2 * j + 1] = right;
                    sum[k] += left + right;
                    squares[k] = fmaf(left, left, fmaf(right, right, squares[k]));
                }
            }
        fetch();
        fetch();
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                sum[k] += __shfl_xor_sync(ALL, sum[k], offset);
                squares[k] += __shfl_xor_sync(ALL, squares[k], offset);
            }
        float rstd[2], shift[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float mean = sum[k] * share_of_one;
            rstd[k] = rsqrtf(fmaxf(fmaf(squares[k], share_of_one, -mean * mean), 0.0f) + eps);
            shift[k] = -mean * rstd[k];
        }
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            if (lane + 32 * u >= groups)
                continue;
            uint4 result[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float4 w = scales[u][h][lane], c = shifts[u][h][lane];
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const float *v = value[k][u] + 4 * h;
                    __nv_bfloat162 *const to = reinterpret_cast<__nv_bfloat162 *>(&result[k]) + 2 * h;
                    to[0] = __floats2bfloat162_rn(fmaf(fmaf(v[0], rstd[k], shift[k]), w.x, c.x),
                                                  fmaf(fmaf(v[1], rstd[k], shift[k]), w.y, c.y));
                    to[1] = __floats2bfloat162_rn(fmaf(fmaf(v[2], rstd[k], shift[k]), w.z, c.z),
                                                  fmaf(fmaf(v[3], rstd[k], shift[k]), w.w, c.w));
                }
            }
            __stcs(reinterpret_cast<uint4 *>(row) + lane + 32 * u, result[0]);
            if (r + 1 < rows)
                __stcs(reinterpret_cast<uint4 *>(row + stride) + lane + 32 * u, result[1]);
        }
        row += 2 * stride;
    }
}
