#define THREADS 256
#define STEPS 16
#define CHUNK (32 * STEPS)
#define ALL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const int *__restrict__ row, const int *__restrict__ col, const float *__restrict__ values,
         const float *__restrict__ x, float *__restrict__ y, int nnz)
{
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * THREADS + threadIdx.x) / 32 * CHUNK;
    if (first >= nnz)
        return;
    int open_row = -1;
    float open_sum = 0.0f;
#pragma unroll 4
    for (int step = 0; step < STEPS; step++) {
        const int i = first + step * 32 + lane;
        const bool inside = i < nnz;
        const int at = inside ? __ldcs(row + i) : -1;
        float sum = inside ? __ldcs(values + i) * __ldg(x + __ldcs(col + i)) : 0.0f;
        const int leading = __shfl_sync(ALL, at, 0);
        if (leading == open_row)
            sum += lane == 0 ? open_sum : 0.0f;
        else if (lane == 0 && open_row >= 0)
            atomicAdd(y + open_row, open_sum);
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float before = __shfl_up_sync(ALL, sum, offset);
            const int other = __shfl_up_sync(ALL, at, offset);
            if (lane >= offset && other == at)
                sum += before;
        }
        const int following = __shfl_down_sync(ALL, at, 1);
        if (lane < 31 && at >= 0 && following != at)
            atomicAdd(y + at, sum);
        open_row = __shfl_sync(ALL, at, 31);
        open_sum = __shfl_sync(ALL, sum, 31);
    }
    if (lane == 0 && open_row >= 0)
        atomicAdd(y + open_row, open_sum);
}
