#define WARPS 4
#define THREADS (32 * WARPS)
#define ROWS 2
#define ALL 0xffffffffu

__device__ __forceinline__ int dot16(int4 p, int4 q, int sum)
{
    return __dp4a(p.w, q.w, __dp4a(p.z, q.z, __dp4a(p.y, q.y, __dp4a(p.x, q.x, sum))));
}

// A warp has two rows; each lane takes 16 weights of each at a time, four products an instruction.
extern "C" __global__ void __launch_bounds__(THREADS)
    gemv(const int4 *__restrict__ w, const int4 *__restrict__ x, const float *__restrict__ row_scale,
         float *__restrict__ y,
         float x_scale, int n, int k)
{
    const int lane = threadIdx.x % 32, row = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS, words = k / 16;
    if (row >= n)
        return;
    const int4 *first = w + static_cast<size_t>(row) * words, *second = first + (row + 1 < n ? words : 0);
    int sum[ROWS] = {};
#pragma unroll 4
    for (int i = lane; i < words; i += 32) {
        const int4 p = __ldcs(first + i), q = __ldcs(second + i), v = __ldg(x + i);
        sum[0] = dot16(p, v, sum[0]);
        sum[1] = dot16(q, v, sum[1]);
    }
    const int both[ROWS] = {__reduce_add_sync(ALL, sum[0]), __reduce_add_sync(ALL, sum[1])};
    if (lane < ROWS && row + lane < n)
        y[row + lane] = (lane == 0 ? both[0] : both[1]) * (x_scale * row_scale[row + lane]);
}
