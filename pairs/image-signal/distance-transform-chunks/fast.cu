#define FAR 30000
#define PART 32
#define BAND 16
#define CHUNK 16
#define SEGMENT 256
#define STEP 32
#define THREADS 256
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu

// Dark pixels as a bit each, 32 rows of a column to a word, and how far from a word's first row the next dark pixel above
// it stands, and from the row after its last the next one below. A block has all rows of 16 columns.
extern "C" __global__ void __launch_bounds__(THREADS)
    edges(const unsigned char *__restrict__ image, unsigned *__restrict__ masks, short *__restrict__ above,
          short *__restrict__ below, int height, int width, int limit)
{
    extern __shared__ unsigned words[];
    const int parts = (height + PART - 1) / PART, band = blockIdx.x * BAND;
    const int x = band + threadIdx.x % 4 * 4;
    for (int part = threadIdx.x / 4; part < parts; part += THREADS / 4) {
        const int begin = part * PART;
        unsigned mask[4] = {};
        if (width % 4 == 0 && x < width && begin + PART <= height) {
            const unsigned char *from = image + static_cast<size_t>(begin) * width + x;
            unsigned four[PART];
#pragma unroll
            for (int i = 0; i < PART; i++)
                four[i] = __ldg(reinterpret_cast<const unsigned *>(from + static_cast<size_t>(i) * width));
#pragma unroll
            for (int i = 0; i < PART; i++)
#pragma unroll
                for (int s = 0; s < 4; s++)
                    mask[s] |= static_cast<int>(four[i] >> 8 * s & 255u) < limit ? 1u << i : 0u;
        } else {
            for (int i = 0; i < min(PART, height - begin); i++)
#pragma unroll
                for (int s = 0; s < 4; s++)
                    if (x + s < width && image[static_cast<size_t>(begin + i) * width + x + s] < limit)
                        mask[s] |= 1u << i;
        }
#pragma unroll
        for (int s = 0; s < 4; s++) {
            words[part * BAND + threadIdx.x % 4 * 4 + s] = mask[s];
            if (x + s < width)
                masks[static_cast<size_t>(part) * width + x + s] = mask[s];
        }
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, column = band + lane;
    if (lane >= BAND || column >= width)
        return;
    int gap = FAR;
    if (threadIdx.x < 32) {
#pragma unroll 8
        for (int part = 0; part < parts; part++) {
            const unsigned mask = words[part * BAND + lane];
            above[static_cast<size_t>(part) * width + column] = gap;
            gap = mask ? __clz(mask) + 1 : min(gap + PART, FAR);
        }
    } else if (threadIdx.x < 64) {
#pragma unroll 8
        for (int part = parts - 1; part >= 0; part--) {
            const unsigned mask = words[part * BAND + lane];
            below[static_cast<size_t>(part) * width + column] = gap;
            gap = mask ? __ffs(mask) - 1 : min(gap + PART, FAR);
        }
    }
}

// The distance along the column, from a word of bits and what is known of those beyond it; `row` is the pixel's within it.
__device__ __forceinline__ int gap_of(unsigned mask, int row, int above, int below)
{
    const unsigned upper = mask << (PART - 1 - row), lower = __brev(mask >> row);
    const int up = upper ? __clz(upper) : row + above, down = lower ? __clz(lower) : PART - row + below;
    return min(min(up, down), FAR);
}

// Places are never negative: shifts and masks.
__device__ __forceinline__ int chunk_of(int place) { return static_cast<unsigned>(place) / CHUNK; }
__device__ __forceinline__ int within(int place) { return static_cast<unsigned>(place) % CHUNK; }

// A row's squares, to each its place in its chunk squared; and of each chunk the least distance with its place.
struct Row {
    const int *squares, *least;

    __device__ int at(int place, int x) const
    {
        const int inside = within(place), d = place - x;
        return squares[place] - inside * inside + d * d;
    }
};

// Where among the chunks from `low` to `high` the least for pixel x stands. A warp asks: each lane a chunk, by its least,
// then those chunks that may have something nearer, two at a time.
__device__ __forceinline__ int nearest_to(const Row &row, int x, int low, int high)
{
    const int lane = threadIdx.x % 32;
    int best = 2147483647, where = x;
    for (int chunk = low + lane; chunk <= high; chunk += 32) {
        const int key = row.least[chunk], gap = chunk_of(key), place = chunk * CHUNK + within(key);
        const int here = gap * gap + (place - x) * (place - x);
        where = here < best ? place : where;
        best = min(best, here);
    }
    const int limit = __reduce_min_sync(FULL, best);
    for (int first = low; first <= high; first += 32) {
        const int chunk = min(first + lane, high), gap = chunk_of(row.least[chunk]);
        const int d = max(max(chunk * CHUNK - x, x - chunk * CHUNK - (CHUNK - 1)), 0);
        unsigned open = __ballot_sync(FULL, first + lane <= high && gap * gap + d * d < limit);
        while (open) {
            const int one = __ffs(open) - 1;
            open &= open - 1;
            const int other = open ? __ffs(open) - 1 : one;
            open &= open - 1;
            const int place = (first + (lane < CHUNK ? one : other)) * CHUNK + within(lane), here = row.at(place, x);
            where = here < best ? place : where;
            best = min(best, here);
        }
    }
    const int least = __reduce_min_sync(FULL, best);
    return __shfl_sync(FULL, where, __ffs(__ballot_sync(FULL, best == least)) - 1);
}

// The nearest of a pixel never stands left of that of a pixel to its left. So every 256th pixel of a row looks through all
// of it, every 32nd between what two of those found, and the others between what two of these found; each warp skips
// chunks whose least is too far for all its pixels.
extern "C" __global__ void __launch_bounds__(THREADS)
    rows(const unsigned *__restrict__ masks, const short *__restrict__ above, const short *__restrict__ below,
         int *__restrict__ squares, int width)
{
    extern __shared__ __align__(16) int shared[];
    const int chunks = (width + CHUNK - 1) / CHUNK, segments = (width + SEGMENT - 1) / SEGMENT;
    int *const row_squares = shared, *const least = shared + chunks * CHUNK, *const found = least + chunks;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = blockIdx.x, inside = blockIdx.x % PART;
    const size_t part = static_cast<size_t>(blockIdx.x / PART) * width;
    for (int base = 0; base < chunks * CHUNK; base += 8 * THREADS) {
        const int x = base + 8 * threadIdx.x;
        int gap[8];
        if (width % 8 == 0 && x < width) {
            const uint4 low = __ldg(reinterpret_cast<const uint4 *>(masks + part + x));
            const uint4 high = __ldg(reinterpret_cast<const uint4 *>(masks + part + x + 4));
            const int4 up = __ldg(reinterpret_cast<const int4 *>(above + part + x));
            const int4 down = __ldg(reinterpret_cast<const int4 *>(below + part + x));
            const unsigned mask[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            const int ups[4] = {up.x, up.y, up.z, up.w}, downs[4] = {down.x, down.y, down.z, down.w};
#pragma unroll
            for (int s = 0; s < 8; s++)
                gap[s] = gap_of(mask[s], inside, ups[s / 2] >> 16 * (s % 2) & 0xffff, downs[s / 2] >> 16 * (s % 2) & 0xffff);
        } else {
#pragma unroll
            for (int s = 0; s < 8; s++)
                gap[s] = x + s < width ? gap_of(masks[part + x + s], inside, above[part + x + s], below[part + x + s]) : FAR;
        }
        const int begin = within(x);
        int key = 2147483647, sum[8];
#pragma unroll
        for (int s = 0; s < 8; s++) {
            key = min(key, gap[s] * CHUNK + begin + s);
            sum[s] = gap[s] * gap[s] + (begin + s) * (begin + s);
        }
        key = min(key, __shfl_xor_sync(FULL, key, 1));
        if (x < chunks * CHUNK) {
            int4 *to = reinterpret_cast<int4 *>(row_squares + x);
            to[0] = make_int4(sum[0], sum[1], sum[2], sum[3]);
            to[1] = make_int4(sum[4], sum[5], sum[6], sum[7]);
            if (begin == 0)
                least[chunk_of(x)] = key;
        }
    }
    __syncthreads();
    const Row row = {row_squares, least};
    for (int s = warp; s <= segments; s += WARPS) {
        const int nearest = nearest_to(row, min(s * SEGMENT, width - 1), 0, chunks - 1);
        if (lane == 0)
            found[s] = nearest;
    }
    __syncthreads();
    for (int s = warp; s < segments; s += WARPS) {
        const int end = min((s + 1) * SEGMENT, width - 1), last = found[s + 1];
        int left = found[s];
        for (int begin = s * SEGMENT; begin < min((s + 1) * SEGMENT, width); begin += STEP) {
            const int right =
                begin + STEP >= end ? last : nearest_to(row, begin + STEP, chunk_of(left), chunk_of(last));
            const int x = min(begin + lane, width - 1);
            int best = min(row.at(left, x), row.at(right, x));
            const int most = __reduce_max_sync(FULL, best);
            for (int first = chunk_of(left); first <= chunk_of(right); first += 32) {
                const int mine = min(first + lane, chunk_of(right)), gap = chunk_of(least[mine]);
                const int d = max(max(mine * CHUNK - (begin + STEP - 1), begin - mine * CHUNK - (CHUNK - 1)), 0);
                unsigned open = __ballot_sync(FULL, first + lane <= chunk_of(right) && gap * gap + d * d < most);
                while (open) {
                    const int chunk = first + __ffs(open) - 1, away = chunk * CHUNK - x, twice = 2 * away;
                    open &= open - 1;
                    const int4 *quads = reinterpret_cast<const int4 *>(row_squares + chunk * CHUNK);
                    int here = 2147483647;
#pragma unroll
                    for (int i = 0; i < CHUNK / 4; i++) {
                        const int4 v = quads[i];
                        here = __vimin3_s32(here, v.x + twice * (4 * i), v.y + twice * (4 * i + 1));
                        here = __vimin3_s32(here, v.z + twice * (4 * i + 2), v.w + twice * (4 * i + 3));
                    }
                    best = min(best, here + away * away);
                }
            }
            if (begin + lane < width)
                squares[static_cast<size_t>(y) * width + begin + lane] = best;
            left = right;
        }
    }
}
