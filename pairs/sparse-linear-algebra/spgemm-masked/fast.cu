#define WARPS 4
#define CHUNK 255
#define NOWHERE 255
#define WINDOW 4096
#define ROOM 64
#define FULL 0xffffffffu

struct Place {
    unsigned char of[WINDOW];
    float sums[CHUNK + 1];
    int entry[ROOM];
    unsigned short owner[ROOM];
};

// Eight columns of B at an aligned place, of the row that lane `owner` has, and which of them are in the row.
struct Piece {
    uint4 columns;
    int at, owner;
    unsigned valid;
};

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

// Piece `base + lane` of 32 rows of B laid end to end. `start` is where a lane's row starts; every row has a piece, so that
// no two start at the same place.
__device__ __forceinline__ Piece fetch(const uint4 *__restrict__ columns, int base, int lane, int begin, int end, int start,
                                       int &passed)
{
    const unsigned starts = __reduce_or_sync(FULL, start >= base && start < base + 32 ? 1u << (start - base) : 0);
    Piece piece;
    piece.owner = passed + __popc(starts & (FULL >> (31 - lane))) - 1;
    passed += __popc(starts);
    const int first = __shfl_sync(FULL, begin, piece.owner), last = __shfl_sync(FULL, end, piece.owner);
    piece.at = first / 8 * 8 + (base + lane - __shfl_sync(FULL, start, piece.owner)) * 8;
    piece.columns = make_uint4(0, 0, 0, 0);
    piece.valid = 0;
    if (piece.at < last) {
        piece.valid = (1u << min(last - piece.at, 8)) - (1u << max(first - piece.at, 0));
        piece.columns = __ldg(columns + piece.at / 8);
    }
    return piece;
}

// One look in the map tells whether the mask has a column and where its sum is. Where all columns are in the window, no
// comparison is needed.
template <bool WHOLE>
__device__ __forceinline__ int look(const Place &place, unsigned column, int base)
{
    if (WHOLE)
        return place.of[column];
    return column - base < WINDOW ? place.of[column - base] : NOWHERE;
}

// Adds up to 32 products to their sums, in the order of the lanes where sums are the same.
__device__ __forceinline__ void add(Place &place, int first, int several, float factor, const float *__restrict__ b_values,
                                    int lane)
{
    const bool own = lane < several;
    const int tag = own ? place.owner[first + lane] : 0;
    const float b = own ? __ldg(b_values + place.entry[first + lane]) : 0.0f;
    const float product = __shfl_sync(FULL, factor, tag / 256) * b;
    const int at = own ? tag % 256 : 256 + lane;
    const unsigned same = __match_any_sync(FULL, at);
    const unsigned rank = __popc(same & ((1u << lane) - 1));
    for (unsigned turn = 0; __any_sync(FULL, turn <= rank); turn++) {
        if (own && turn == rank)
            place.sums[at] += product;
        __syncwarp();
    }
}

// The products of 32 entries of A and their rows of B. Lanes take eight columns at a time of the rows laid end to end; the
// few that the mask wants are listed and added up 32 at a time.
template <bool WHOLE>
__device__ __forceinline__ void gather(Place &place, const uint4 *__restrict__ columns, const float *__restrict__ b_values,
                                       int b_first, int b_end, int pieces, float factor, int base, int lane)
{
    const unsigned below = (1u << lane) - 1;
    const int upto = inclusive(pieces, lane);
    const int total = __shfl_sync(FULL, upto, 31);
    const int start = pieces > 0 ? upto - pieces : total + 32;
    int passed = 0, listed = 0;
    Piece next = fetch(columns, 0, lane, b_first, b_end, start, passed);
    for (int piece_base = 0; piece_base < total; piece_base += 32) {
        const Piece piece = next;
        if (piece_base + 32 < total)
            next = fetch(columns, piece_base + 32, lane, b_first, b_end, start, passed);
        const unsigned words[4] = {piece.columns.x, piece.columns.y, piece.columns.z, piece.columns.w};
        unsigned hits = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            hits |= (look<WHOLE>(place, words[k / 2] >> 16 * (k % 2) & 0xffff, base) != NOWHERE) << k;
        hits &= piece.valid;
        while (__any_sync(FULL, hits != 0)) {
            const unsigned wanted = __ballot_sync(FULL, hits != 0);
            if (hits != 0) {
                const int k = __ffs(hits) - 1;
                const unsigned word = k < 4 ? (k < 2 ? words[0] : words[1]) : (k < 6 ? words[2] : words[3]);
                const int to = listed + __popc(wanted & below);
                place.entry[to] = piece.at + k;
                place.owner[to] = piece.owner * 256 + look<WHOLE>(place, word >> 16 * (k % 2) & 0xffff, base);
                hits &= hits - 1;
            }
            listed += __popc(wanted);
            __syncwarp();
            if (listed >= 32) {
                listed -= 32;
                add(place, listed, 32, factor, b_values, lane);
            }
        }
    }
    if (listed > 0)
        add(place, 0, listed, factor, b_values, lane);
}

// A warp has a map of columns in shared memory, a byte each, and marks in it the columns of its row of the mask. Marks are
// taken back one by one, so that the map is cleared once for all rows of a warp.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 9)
    multiply(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const float *__restrict__ a_values,
             const int *__restrict__ b_offsets, const int *__restrict__ b_columns, const float *__restrict__ b_values,
             const int *__restrict__ mask_offsets, const int *__restrict__ mask_columns, float *__restrict__ out,
             const uint4 *__restrict__ columns, int rows, int cols)
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
                    int b_first = 0, b_end = 0, pieces = 0;
                    float factor = 0.0f;
                    if (some + lane < a_end) {
                        const int inner = __ldg(a_columns + some + lane);
                        factor = __ldg(a_values + some + lane);
                        b_first = __ldg(b_offsets + inner);
                        b_end = __ldg(b_offsets + inner + 1);
                        pieces = max((b_end + 7) / 8 - b_first / 8, 1);
                    }
                    if (cols <= WINDOW) {
                        gather<true>(place, columns, b_values, b_first, b_end, pieces, factor, base, lane);
                    } else if (cols <= 65536) {
                        gather<false>(place, columns, b_values, b_first, b_end, pieces, factor, base, lane);
                    } else {
                        // Wider matrices go row by row.
                        for (int k = 0; k < min(32, a_end - some); k++) {
                            const float a = __shfl_sync(FULL, factor, k);
                            const int until = __shfl_sync(FULL, b_end, k);
                            for (int j = __shfl_sync(FULL, b_first, k) + lane; j < until; j += 32) {
                                const int at = look<false>(place, __ldg(b_columns + j), base);
                                if (at != NOWHERE)
                                    place.sums[at] += a * __ldg(b_values + j);
                            }
                            __syncwarp();
                        }
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
