#define WARPS 8
#define WINDOW 32768
#define FULL 0xffffffffu

// Columns in two bytes each, as long as they fit; the last eight are filled up.
extern "C" __global__ void __launch_bounds__(256)
    narrow(const int *__restrict__ b_columns, uint4 *__restrict__ columns, int b_nnz)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 8 >= b_nnz)
        return;
    unsigned words[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int e = i * 8 + 2 * k;
        words[k] = (e < b_nnz ? b_columns[e] & 0xffff : 0) | (e + 1 < b_nnz ? b_columns[e + 1] & 0xffff : 0) << 16;
    }
    columns[i] = make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ int inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// Eight columns of B at an aligned place, and which of them are in the row that they are asked for.
struct Piece {
    uint4 columns;
    unsigned valid;
};

// Piece `base + lane` of 32 rows of B laid end to end. `start` is where a lane's row starts; every row has a piece, so that
// no two start at the same place.
__device__ __forceinline__ Piece fetch(const uint4 *__restrict__ columns, int base, int lane, int begin, int end, int start,
                                       int &passed)
{
    const unsigned starts = __reduce_or_sync(FULL, start >= base && start < base + 32 ? 1u << (start - base) : 0);
    const int owner = passed + __popc(starts & (FULL >> (31 - lane))) - 1;
    passed += __popc(starts);
    const int first = __shfl_sync(FULL, begin, owner), last = __shfl_sync(FULL, end, owner);
    const int at = first / 8 * 8 + (base + lane - __shfl_sync(FULL, start, owner)) * 8;
    Piece piece = {make_uint4(0, 0, 0, 0), 0};
    if (at < last) {
        piece.valid = (1u << min(last - at, 8)) - (1u << max(first - at, 0));
        piece.columns = __ldg(columns + at / 8);
    }
    return piece;
}

// Whether a column of the window is marked now for the first time.
__device__ __forceinline__ bool mark(unsigned *marks, unsigned column)
{
    const unsigned bit = 1u << column % 32;
    return (atomicOr(marks + column / 32, bit) & bit) == 0;
}

// A warp a row, with a bit a column in shared memory of its own: no barriers. Lanes take eight columns at a time of 32
// rows of B laid end to end. Columns beyond the bits take another turn.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    count(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const int *__restrict__ b_offsets,
          const int *__restrict__ b_columns, const uint4 *__restrict__ columns, int *__restrict__ counts, int rows, int cols)
{
    __shared__ uint4 all_marks[WARPS][WINDOW / 128];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned *marks = reinterpret_cast<unsigned *>(all_marks[warp]);
    for (int row = blockIdx.x * WARPS + warp; row < rows; row += gridDim.x * WARPS) {
        const int a_first = __ldg(a_offsets + row), a_end = __ldg(a_offsets + row + 1);
        int different = 0;
        for (int window = 0; window < cols; window += WINDOW) {
            for (int w = lane; w < (min(cols - window, WINDOW) + 127) / 128; w += 32)
                all_marks[warp][w] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            for (int some = a_first; some < a_end; some += 32) {
                int begin = 0, end = 0, pieces = 0;
                if (some + lane < a_end) {
                    const int inner = __ldg(a_columns + some + lane);
                    begin = __ldg(b_offsets + inner);
                    end = __ldg(b_offsets + inner + 1);
                    pieces = max((end + 7) / 8 - begin / 8, 1);
                }
                if (cols > WINDOW) {
                    // Wider matrices go row by row, a lane a row.
                    for (int j = begin; j < end; j++) {
                        const unsigned column = __ldg(b_columns + j) - window;
                        if (column < WINDOW)
                            different += mark(marks, column);
                    }
                    continue;
                }
                const int upto = inclusive(pieces, lane);
                const int total = __shfl_sync(FULL, upto, 31);
                const int start = pieces > 0 ? upto - pieces : total + 32;
                int passed = 0;
                Piece next = fetch(columns, 0, lane, begin, end, start, passed);
                for (int base = 0; base < total; base += 32) {
                    const Piece piece = next;
                    if (base + 32 < total)
                        next = fetch(columns, base + 32, lane, begin, end, start, passed);
                    const unsigned words[4] = {piece.columns.x, piece.columns.y, piece.columns.z, piece.columns.w};
                    // A column of another row is asked for as well, but no bit of it is set or counted.
                    if (piece.valid != 0) {
                        unsigned bits[8], before[8];
#pragma unroll
                        for (int k = 0; k < 8; k++) {
                            const unsigned column = words[k / 2] >> 16 * (k % 2) & 0xffff;
                            bits[k] = (piece.valid >> k & 1) << column % 32;
                            before[k] = atomicOr(marks + column / 32, bits[k]);
                        }
#pragma unroll
                        for (int k = 0; k < 8; k++)
                            different += (~before[k] & bits[k]) != 0;
                    }
                    __syncwarp();
                }
            }
            __syncwarp();
        }
        different = __reduce_add_sync(FULL, different);
        if (lane == 0)
            counts[row] = different;
    }
}
