#define WARPS 8
#define HELD 8
#define FULL 0xffffffffu

__device__ __forceinline__ int dot(const int4 &a, const int4 &b, int sum)
{
    return __dp4a(a.x, b.x, __dp4a(a.y, b.y, __dp4a(a.z, b.z, __dp4a(a.w, b.w, sum))));
}

// Resident warps; a lane keeps its part of the vector, of up to 4096 numbers, and loads as much of a row at once.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    multiply(const signed char *__restrict__ matrix, const signed char *__restrict__ x, int *__restrict__ y, int m,
             int k)
{
    const int lane = threadIdx.x % 32, quads = k / 16;
    const int4 *vector = reinterpret_cast<const int4 *>(x);
    const int4 none = make_int4(0, 0, 0, 0);
    int4 part[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++)
        part[u] = lane + 32 * u < quads ? vector[lane + 32 * u] : none;
    for (int row = blockIdx.x * WARPS + threadIdx.x / 32; row < m; row += gridDim.x * WARPS) {
        const int4 *from = reinterpret_cast<const int4 *>(matrix + static_cast<size_t>(row) * k);
        int4 own[HELD];
#pragma unroll
        for (int u = 0; u < HELD; u++)
            own[u] = lane + 32 * u < quads ? __ldcs(from + lane + 32 * u) : none;
        int sum = 0;
#pragma unroll
        for (int u = 0; u < HELD; u++)
            sum = dot(own[u], part[u], sum);
#pragma unroll 4
        for (int q = lane + 32 * HELD; q < quads; q += 32)
            sum = dot(__ldcs(from + q), vector[q], sum);
        sum = __reduce_add_sync(FULL, sum);
        if (lane == 0)
            y[row] = sum;
    }
}
