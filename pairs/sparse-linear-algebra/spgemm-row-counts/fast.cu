#define WARPS 8
#define WINDOW 32768
#define AHEAD 4
#define FULL 0xffffffffu

// A warp a row, with a bit a column in shared memory of its own: no barriers, and of the rows of B
// four are read at once. Columns beyond the bits take another turn.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    count(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const int *__restrict__ b_offsets,
          const int *__restrict__ b_columns, int *__restrict__ counts, int rows, int cols)
{
    __shared__ uint4 all_marks[WARPS][WINDOW / 128];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned *marks = reinterpret_cast<unsigned *>(all_marks[warp]);
    for (int row = blockIdx.x * WARPS + warp; row < rows; row += gridDim.x * WARPS) {
        const int a_first = __ldg(a_offsets + row), a_end = __ldg(a_offsets + row + 1);
        int different = 0;
        for (int base = 0; base < cols; base += WINDOW) {
            for (int w = lane; w < (min(cols - base, WINDOW) + 127) / 128; w += 32)
                all_marks[warp][w] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            for (int some = a_first; some < a_end; some += 32) {
                int begin = 0, end = 0;
                if (some + lane < a_end) {
                    const int inner = __ldg(a_columns + some + lane);
                    begin = __ldg(b_offsets + inner);
                    end = __ldg(b_offsets + inner + 1);
                }
                for (int k = 0; k < min(32, a_end - some); k += AHEAD) {
                    int at[AHEAD], until[AHEAD];
                    unsigned column[AHEAD];
#pragma unroll
                    for (int r = 0; r < AHEAD; r++) {
                        at[r] = __shfl_sync(FULL, begin, k + r) + lane;
                        until[r] = __shfl_sync(FULL, end, k + r);
                        column[r] = at[r] < until[r] ? __ldg(b_columns + at[r]) - base : WINDOW;
                    }
#pragma unroll
                    for (int r = 0; r < AHEAD; r++) {
                        while (true) {
                            if (column[r] < WINDOW) {
                                const unsigned bit = 1u << column[r] % 32;
                                different += (atomicOr(marks + column[r] / 32, bit) & bit) == 0;
                            }
                            at[r] += 32;
                            if (at[r] >= until[r])
                                break;
                            column[r] = __ldg(b_columns + at[r]) - base;
                        }
                    }
                }
            }
            __syncwarp();
        }
        different = __reduce_add_sync(FULL, different);
        if (lane == 0)
            counts[row] = different;
    }
}
