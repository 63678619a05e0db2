#define WARPS 4
#define THREADS (32 * WARPS)
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    count(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const int *__restrict__ b_offsets,
          const int *__restrict__ b_columns, int *__restrict__ counts, int words)
{
    extern __shared__ uint4 marks4[];
    __shared__ int totals[WARPS];
    unsigned *marks = reinterpret_cast<unsigned *>(marks4);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x;
    for (int w = threadIdx.x; w < (words + 3) / 4; w += THREADS)
        marks4[w] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const int end = a_offsets[row + 1];
    int different = 0;
#pragma unroll 2
    for (int i = a_offsets[row] + warp; i < end; i += WARPS) {
        const int inner = __ldg(a_columns + i);
        const int last = __ldg(b_offsets + inner + 1);
        for (int j = __ldg(b_offsets + inner) + lane; j < last; j += 32) {
            const int column = __ldg(b_columns + j);
            const unsigned bit = 1u << column % 32;
            different += (atomicOr(marks + column / 32, bit) & bit) == 0;
        }
    }
    different = __reduce_add_sync(FULL, different);
    if (lane == 0)
        totals[warp] = different;
    __syncthreads();
    if (threadIdx.x == 0)
        counts[row] = totals[0] + totals[1] + totals[2] + totals[3];
}
