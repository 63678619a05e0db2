#define WARPS 8
#define CHUNK 255
#define NOWHERE 255
#define WINDOW 4096
#define FULL 0xffffffffu

struct Place {
    unsigned char of[WINDOW];
    float sums[CHUNK + 1];
};

// One look in the map tells whether the mask has an entry's column and where its sum is.
__device__ __forceinline__ int look(const Place &place, unsigned column)
{
    return column < WINDOW ? place.of[column] : NOWHERE;
}

// A warp has a map of columns in shared memory, a byte each, and marks in it the columns of its row of the mask. Marks are
// taken back one by one, so that the map is cleared once for all rows of a warp. Of a row of B
// columns are read a row ahead, values only where the mask wants them; its columns differ, so that no two lanes meet.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    multiply(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const float *__restrict__ a_values,
             const int *__restrict__ b_offsets, const int *__restrict__ b_columns, const float *__restrict__ b_values,
             const int *__restrict__ mask_offsets, const int *__restrict__ mask_columns, float *__restrict__ out,
             int rows, int cols)
{
    __shared__ __align__(16) Place places[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Place &place = places[warp];
    for (int s = lane * 16; s < WINDOW; s += 512)
        *reinterpret_cast<uint4 *>(place.of + s) = make_uint4(FULL, FULL, FULL, FULL);
    __syncwarp();
    for (int row = blockIdx.x * WARPS + warp; row < rows; row += gridDim.x * WARPS) {
        const int end = mask_offsets[row + 1], a_first = a_offsets[row], a_end = a_offsets[row + 1];
        for (int first = mask_offsets[row]; first < end; first += CHUNK) {
            const int last = min(first + CHUNK, end);
            for (int base = 0; base < cols; base += WINDOW) {
                for (int e = first + lane; e < last; e += 32) {
                    const unsigned column = __ldg(mask_columns + e) - base;
                    place.sums[e - first] = 0.0f;
                    if (column < WINDOW)
                        place.of[column] = e - first;
                }
                __syncwarp();
                for (int some = a_first; some < a_end; some += 32) {
                    const bool own = some + lane < a_end;
                    const int inner = own ? __ldg(a_columns + some + lane) : 0;
                    const float factor = own ? __ldg(a_values + some + lane) : 0.0f;
                    const int b_first = own ? __ldg(b_offsets + inner) : 0, b_end = own ? __ldg(b_offsets + inner + 1) : 0;
                    const int several = min(32, a_end - some);
                    int j = __shfl_sync(FULL, b_first, 0) + lane, until = __shfl_sync(FULL, b_end, 0);
                    unsigned column = j < until ? __ldg(b_columns + j) - base : WINDOW;
                    unsigned column2 = j + 32 < until ? __ldg(b_columns + j + 32) - base : WINDOW;
#pragma unroll 2
                    for (int k = 0; k < several; k++) {
                        const int ahead = min(k + 1, several - 1);
                        const int next = __shfl_sync(FULL, b_first, ahead) + lane;
                        const int next_until = __shfl_sync(FULL, b_end, ahead);
                        const unsigned next_column = next < next_until ? __ldg(b_columns + next) - base : WINDOW;
                        const unsigned next_column2 =
                            next + 32 < next_until ? __ldg(b_columns + next + 32) - base : WINDOW;
                        const float a = __shfl_sync(FULL, factor, k);
                        const int at = look(place, column), at2 = look(place, column2);
                        const float b = at != NOWHERE ? __ldg(b_values + j) : 0.0f;
                        const float b2 = at2 != NOWHERE ? __ldg(b_values + j + 32) : 0.0f;
                        if (at != NOWHERE)
                            place.sums[at] += a * b;
                        if (at2 != NOWHERE)
                            place.sums[at2] += a * b2;
#pragma unroll 1
                        for (j += 64; j < until; j += 32) {
                            const int more = look(place, __ldg(b_columns + j) - base);
                            if (more != NOWHERE)
                                place.sums[more] += a * __ldg(b_values + j);
                        }
                        j = next, until = next_until, column = next_column, column2 = next_column2;
                        __syncwarp();
                    }
                }
                for (int e = first + lane; e < last; e += 32) {
                    const unsigned column = __ldg(mask_columns + e) - base;
                    if (column < WINDOW) {
                        out[e] = place.sums[e - first];
                        place.of[column] = NOWHERE;
                    }
                }
                __syncwarp();
            }
        }
    }
}
