#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNK (THREADS * 4)
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    row_sums(const float *__restrict__ values, float *__restrict__ sums, int cols)
{
    __shared__ float totals[2][WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t base = static_cast<size_t>(blockIdx.x) * cols;
    const bool aligned = cols % 4 == 0;
    float carry = 0.0f;
    int buffer = 0;
    for (int start = 0; start < cols; start += CHUNK, buffer ^= 1) {
        const int col = start + 4 * threadIdx.x;
        float4 item = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (aligned) {
            if (col < cols)
                item = __ldcs(reinterpret_cast<const float4 *>(values + base + col));
        } else {
            item.x = col < cols ? values[base + col] : 0.0f;
            item.y = col + 1 < cols ? values[base + col + 1] : 0.0f;
            item.z = col + 2 < cols ? values[base + col + 2] : 0.0f;
            item.w = col + 3 < cols ? values[base + col + 3] : 0.0f;
        }
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
        if (aligned) {
            if (col < cols)
                __stcs(reinterpret_cast<float4 *>(sums + base + col), item);
        } else {
            if (col < cols)
                sums[base + col] = item.x;
            if (col + 1 < cols)
                sums[base + col + 1] = item.y;
            if (col + 2 < cols)
                sums[base + col + 2] = item.z;
            if (col + 3 < cols)
                sums[base + col + 3] = item.w;
        }
    }
}
