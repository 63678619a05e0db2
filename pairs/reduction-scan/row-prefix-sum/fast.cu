#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNK (THREADS * 4)
#define FULL 0xffffffffu

__device__ __forceinline__ float4 load(const float *__restrict__ row, int col, int cols)
{
    float4 item = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (cols % 4 == 0) {
        if (col < cols)
            item = __ldcs(reinterpret_cast<const float4 *>(row + col));
    } else {
        item.x = col < cols ? row[col] : 0.0f;
        item.y = col + 1 < cols ? row[col + 1] : 0.0f;
        item.z = col + 2 < cols ? row[col + 2] : 0.0f;
        item.w = col + 3 < cols ? row[col + 3] : 0.0f;
    }
    return item;
}

__device__ __forceinline__ void store(float *__restrict__ row, int col, int cols, float4 item)
{
    if (cols % 4 == 0) {
        if (col < cols)
            __stcs(reinterpret_cast<float4 *>(row + col), item);
    } else {
        if (col < cols)
            row[col] = item.x;
        if (col + 1 < cols)
            row[col + 1] = item.y;
        if (col + 2 < cols)
            row[col + 2] = item.z;
        if (col + 3 < cols)
            row[col + 3] = item.w;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    row_sums(const float *__restrict__ values, float *__restrict__ sums, int cols)
{
    __shared__ float totals[2][WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *row = values + static_cast<size_t>(blockIdx.x) * cols;
    float *row_out = sums + static_cast<size_t>(blockIdx.x) * cols;
    float carry = 0.0f;
    int buffer = 0;
    float4 next = load(row, 4 * threadIdx.x, cols);
    for (int start = 0; start < cols; start += CHUNK, buffer ^= 1) {
        const int col = start + 4 * threadIdx.x;
        float4 item = next;
        next = load(row, col + CHUNK, cols);
        item.y += item.x;
        item.z += item.y;
        item.w += item.z;
        float upto = item.w;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const float other = __shfl_up_sync(FULL, upto, distance);
            if (lane >= distance)
                upto += other;
        }
        if (lane == 31)
            totals[buffer][warp] = upto;
        __syncthreads();
        float before = carry;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float total = totals[buffer][w];
            if (w < warp)
                before += total;
            carry += total;
        }
        const float left = __shfl_up_sync(FULL, upto, 1);
        before += lane > 0 ? left : 0.0f;
        item.x += before;
        item.y += before;
        item.z += before;
        item.w += before;
        store(row_out, col, cols, item);
    }
}
