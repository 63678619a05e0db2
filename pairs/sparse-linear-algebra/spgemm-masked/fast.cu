#define WARPS 4
#define CHUNK 255
#define NOWHERE 255
#define WINDOW 4096
#define ROOM 160
#define FULL 0xffffffffu

struct Place {
    unsigned char of[WINDOW];
    float sums[CHUNK + 1];
    int entry[ROOM];
    unsigned short owner[ROOM];
};

// Four columns of B at an aligned address, of the row that lane `owner` has.
struct Piece {
    int4 columns;
    int at, first, last, owner;
};

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
__device__ __forceinline__ Piece fetch(const int *__restrict__ columns, int entries, int base, int lane, int begin, int end,
                                       int start, int &passed)
{
    const unsigned starts = __reduce_or_sync(FULL, start >= base && start < base + 32 ? 1u << (start - base) : 0);
    Piece piece;
    piece.owner = passed + __popc(starts & (FULL >> (31 - lane))) - 1;
    passed += __popc(starts);
    piece.first = __shfl_sync(FULL, begin, piece.owner);
    piece.last = __shfl_sync(FULL, end, piece.owner);
    piece.at = piece.first / 4 * 4 + (base + lane - __shfl_sync(FULL, start, piece.owner)) * 4;
    piece.columns = make_int4(0, 0, 0, 0);
    if (piece.at < piece.last) {
        if (piece.at + 4 <= entries) {
            piece.columns = __ldg(reinterpret_cast<const int4 *>(columns + piece.at));
        } else {
            piece.columns.x = columns[piece.at];
            piece.columns.y = piece.at + 1 < entries ? columns[piece.at + 1] : 0;
            piece.columns.z = piece.at + 2 < entries ? columns[piece.at + 2] : 0;
        }
    }
    return piece;
}

// One look in the map tells whether the mask has an entry's column and where its sum is.
__device__ __forceinline__ int look(const Place &place, const Piece &piece, int k, unsigned column)
{
    const bool own = piece.at + k >= piece.first && piece.at + k < piece.last && column < WINDOW;
    return own ? place.of[column] : NOWHERE;
}

// Adds up to 32 products to their sums, in the order of the lanes where sums are the same.
__device__ __forceinline__ void add(Place &place, int first, int several, float factor,
                                    const float *__restrict__ b_values, int lane)
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

// A warp has a map of columns in shared memory, a byte each, and marks in it the columns of its row of the mask. Marks are
// taken back one by one, so that the map is cleared once for all rows of a warp. Lanes take four columns at a time of
// the rows of B laid end to end; the few that the mask wants are listed and added up 32 at a time.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 9)
    multiply(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const float *__restrict__ a_values,
             const int *__restrict__ b_offsets, const int *__restrict__ b_columns, const float *__restrict__ b_values,
             const int *__restrict__ mask_offsets, const int *__restrict__ mask_columns, float *__restrict__ out,
             int rows, int cols, int b_nnz)
{
    __shared__ __align__(16) Place places[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned below = (1u << lane) - 1;
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
                        pieces = max((b_end + 3) / 4 - b_first / 4, 1);
                    }
                    const int upto = inclusive(pieces, lane);
                    const int total = __shfl_sync(FULL, upto, 31);
                    const int start = pieces > 0 ? upto - pieces : total + 32;
                    int passed = 0, listed = 0;
                    Piece next = fetch(b_columns, b_nnz, 0, lane, b_first, b_end, start, passed);
                    for (int piece_base = 0; piece_base < total; piece_base += 32) {
                        const Piece piece = next;
                        if (piece_base + 32 < total)
                            next = fetch(b_columns, b_nnz, piece_base + 32, lane, b_first, b_end, start, passed);
                        const int at[4] = {look(place, piece, 0, piece.columns.x - base),
                                           look(place, piece, 1, piece.columns.y - base),
                                           look(place, piece, 2, piece.columns.z - base),
                                           look(place, piece, 3, piece.columns.w - base)};
                        // All ones in a byte is nowhere.
                        if (!__any_sync(FULL, (at[0] & at[1] & at[2] & at[3]) != NOWHERE))
                            continue;
#pragma unroll
                        for (int k = 0; k < 4; k++) {
                            const unsigned wanted = __ballot_sync(FULL, at[k] != NOWHERE);
                            if (at[k] != NOWHERE) {
                                const int to = listed + __popc(wanted & below);
                                place.entry[to] = piece.at + k;
                                place.owner[to] = piece.owner * 256 + at[k];
                            }
                            listed += __popc(wanted);
                        }
                        __syncwarp();
                        while (listed >= 32) {
                            listed -= 32;
                            add(place, listed, 32, factor, b_values, lane);
                        }
                    }
                    if (listed > 0)
                        add(place, 0, listed, factor, b_values, lane);
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
