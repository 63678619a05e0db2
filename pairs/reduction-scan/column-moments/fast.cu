#define WARPS 8
#define SLAB 256

struct Sums {
    float4 first, second;
};

__device__ __forceinline__ float4 add(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ void gather(Sums &sums, float4 v, float4 shift)
{
    const float4 d = make_float4(v.x - shift.x, v.y - shift.y, v.z - shift.z, v.w - shift.w);
    sums.first = add(sums.first, d);
    sums.second = add(sums.second, make_float4(d.x * d.x, d.y * d.y, d.z * d.z, d.w * d.w));
}

__device__ __forceinline__ float4 load(const float *__restrict__ row, int col, int cols)
{
    if (cols % 4 == 0)
        return __ldcs(reinterpret_cast<const float4 *>(row + col));
    return make_float4(row[col], col + 1 < cols ? row[col + 1] : 0.0f, col + 2 < cols ? row[col + 2] : 0.0f,
                       col + 3 < cols ? row[col + 3] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    column_sums(const float *__restrict__ values, float *__restrict__ firsts, float *__restrict__ seconds, int rows,
                int cols)
{
    __shared__ Sums part[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int col = (blockIdx.x * 32 + lane) * 4;
    const int end = min((static_cast<int>(blockIdx.y) + 1) * SLAB, rows);
    Sums sums = {};
    if (col < cols) {
        const float4 shift = load(values, col, cols);
        int row = blockIdx.y * SLAB + warp;
        for (; row + 3 * WARPS < end; row += 4 * WARPS) {
            float4 v[4];
#pragma unroll
            for (int u = 0; u < 4; u++)
                v[u] = load(values + static_cast<size_t>(row + u * WARPS) * cols, col, cols);
#pragma unroll
            for (int u = 0; u < 4; u++)
                gather(sums, v[u], shift);
        }
        for (; row < end; row += WARPS)
            gather(sums, load(values + static_cast<size_t>(row) * cols, col, cols), shift);
    }
    part[warp][lane] = sums;
    __syncthreads();
    if (warp == 0 && col < cols) {
        for (int w = 1; w < WARPS; w++) {
            sums.first = add(sums.first, part[w][lane].first);
            sums.second = add(sums.second, part[w][lane].second);
        }
        const size_t at = static_cast<size_t>(blockIdx.y) * gridDim.x * 128 + col;
        *reinterpret_cast<float4 *>(firsts + at) = sums.first;
        *reinterpret_cast<float4 *>(seconds + at) = sums.second;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    finish(const float *__restrict__ values, const float *__restrict__ firsts, const float *__restrict__ seconds,
           float *__restrict__ mean, float *__restrict__ variance, int rows, int cols, int slabs, int pitch)
{
    __shared__ float part[2][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int col = blockIdx.x * 32 + lane;
    float first = 0.0f, second = 0.0f;
    if (col < cols) {
        for (int slab = warp; slab < slabs; slab += WARPS) {
            first += firsts[static_cast<size_t>(slab) * pitch + col];
            second += seconds[static_cast<size_t>(slab) * pitch + col];
        }
    }
    part[0][warp][lane] = first;
    part[1][warp][lane] = second;
    __syncthreads();
    if (warp == 0 && col < cols) {
        for (int w = 1; w < WARPS; w++) {
            first += part[0][w][lane];
            second += part[1][w][lane];
        }
        const float offset = first / rows;
        mean[col] = values[col] + offset;
        variance[col] = second / rows - offset * offset;
    }
}
