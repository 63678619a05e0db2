// A sweep a launch instead of half of one, from one lattice to another, so that memory is read and written once for
// both colours: a warp walks down a strip with its rows in registers, the second colour a row behind the first. The
// outer lanes' columns are stepped along and dropped. All that decides a site's chance is a number of seven bits, made
// for four sites at once; chances by that number lie in shared memory.
#define THREADS 128
#define WARPS (THREADS / 32)
#define STRIP 64
#define LANES 30
#define AHEAD 3
#define ALL 0xffffffffu
#define FULL_BYTES 0x01010101u

// `four` is four: a factor that the compiler does not know makes places in the table on the multiplier's pipe, for
// shifts and the like are what there is most of.
struct Column {
    unsigned inside, left_out, right_out, four;
};

// `h` has gone through the first of the generator's three rounds.
__device__ __forceinline__ unsigned random_rest(unsigned h)
{
    h *= 0x7FEB352Du;
    h ^= h >> 15;
    h *= 0x846CA68Bu;
    h ^= h >> 16;
    return h;
}

// Two of four sites: `numbers` has a byte for each. `h` is that of the eight's first site; they differ in three bits.
template <int OFFSET>
__device__ __forceinline__ unsigned two_sites(unsigned here, unsigned numbers, unsigned h, const Column &column,
                                              const unsigned *chances)
{
    const unsigned char *table = reinterpret_cast<const unsigned char *>(chances);
    unsigned flips = 0;
#pragma unroll
    for (int i = OFFSET; i < 4; i += 2)
        if (random_rest(h ^ i) <
            *reinterpret_cast<const unsigned *>(table + __byte_perm(numbers, 0, 0x4440 + i) * column.four))
            flips |= 1u << 8 * i;
    return here ^ (flips & column.inside);
}

// Sites of one colour in eight columns of row y. Even sites look beyond the left end of the eight, odd ones beyond the
// right.
template <int OFFSET>
__device__ __forceinline__ uint2 update(uint2 here, uint2 above, uint2 below, unsigned rim, unsigned site,
                                        unsigned salt,
                                        const Column &column, const unsigned *chances)
{
    unsigned low = above.x + below.x + (here.x << 3) + rim, high = above.y + below.y + (here.y << 3) + rim;
    if (OFFSET == 0) {
        const unsigned beside = __shfl_up_sync(ALL, here.y, 1);
        low += __funnelshift_l(beside, here.x, 8) + (here.x >> 8) + column.left_out;
        high += __funnelshift_l(here.x, here.y, 8) + (here.y >> 8);
    } else {
        const unsigned beside = __shfl_down_sync(ALL, here.x, 1);
        low += (here.x << 8) + __funnelshift_r(here.x, here.y, 8);
        high += (here.y << 8) + __funnelshift_r(here.y, beside, 8) + column.right_out;
    }
    const unsigned word = salt ^ site, h = word ^ word >> 16;
    return make_uint2(two_sites<OFFSET>(here.x, low, h, column, chances),
                      two_sites<OFFSET>(here.y, high, h ^ 4, column, chances));
}

// Rows that are no multiple of eight: every site by itself, its neighbours' first half step made again.
__device__ __forceinline__ unsigned first_half(const unsigned char *__restrict__ from, const unsigned *chances, int y,
                                               int x, int height, int width, unsigned salt)
{
    const size_t at = static_cast<size_t>(y) * width + x;
    const unsigned own = from[at];
    if ((x + y) % 2)
        return own;
    const int outside = (y == 0) + (y == height - 1) + (x == 0) + (x == width - 1);
    unsigned up = (x > 0 ? from[at - 1] : 0) + (x < width - 1 ? from[at + 1] : 0);
    up += (y > 0 ? from[at - width] : 0) + (y < height - 1 ? from[at + width] : 0);
    unsigned h = salt ^ (static_cast<unsigned>(y) * width + x);
    h ^= h >> 16;
    return own ^ (random_rest(h) < chances[outside * 16 + own * 8 + up] ? 1u : 0u);
}

__device__ __forceinline__ void ragged(const unsigned char *__restrict__ from, unsigned char *__restrict__ to,
                                       const unsigned *chances, int height, int width, unsigned salt,
                                       unsigned next_salt)
{
    const int threads = gridDim.x * gridDim.y * THREADS;
    const int first = (blockIdx.y * gridDim.x + blockIdx.x) * THREADS + threadIdx.x;
    for (long long at = first; at < static_cast<long long>(height) * width; at += threads) {
        const int y = static_cast<int>(at / width), x = static_cast<int>(at % width);
        unsigned own = first_half(from, chances, y, x, height, width, salt);
        if ((x + y) % 2) {
            const int outside = (y == 0) + (y == height - 1) + (x == 0) + (x == width - 1);
            unsigned up = 0;
            if (x > 0)
                up += first_half(from, chances, y, x - 1, height, width, salt);
            if (x < width - 1)
                up += first_half(from, chances, y, x + 1, height, width, salt);
            if (y > 0)
                up += first_half(from, chances, y - 1, x, height, width, salt);
            if (y < height - 1)
                up += first_half(from, chances, y + 1, x, height, width, salt);
            unsigned h = next_salt ^ (static_cast<unsigned>(y) * width + x);
            h ^= h >> 16;
            own ^= random_rest(h) < chances[outside * 16 + own * 8 + up] ? 1u : 0u;
        }
        to[at] = own;
    }
}

// A lane's eight columns of a strip. `before` and `above` have gone through the first half step as far as row y and its
// neighbours need it; what lies outside has no spin and gets none, so that neighbours there count for nothing.
struct Strip {
    const unsigned char *from;
    unsigned char *to;
    const unsigned *chances;
    int height, width, first, last;
    unsigned salt, next_salt, site;
    bool inside, stores;
    Column column;
    uint2 before, above, here, queue[AHEAD];

    __device__ __forceinline__ uint2 load(int y) const
    {
        return inside && y >= 0 && y < height
                   ? __ldg(reinterpret_cast<const uint2 *>(from + static_cast<size_t>(y) * width))
                   : make_uint2(0, 0);
    }

    // What the lattice's first and last row count for each of four sites.
    __device__ __forceinline__ unsigned rim(int y) const
    {
        return ((y == 0) + (y == height - 1)) * 16u * FULL_BYTES;
    }

    // Row y and its sites of the first colour, then the row above it and its sites of the second.
    template <int OFFSET> __device__ __forceinline__ void walk(int y)
    {
        const uint2 below = queue[0];
#pragma unroll
        for (int i = 0; i + 1 < AHEAD; i++)
            queue[i] = queue[i + 1];
        queue[AHEAD - 1] = load(y + AHEAD <= last ? y + 1 + AHEAD : -1);
        uint2 changed = here;
        if (y >= 0 && y < height)
            changed = update<OFFSET>(here, above, below, rim(y), site, salt, column, chances);
        if (y > first) {
            const uint2 done =
                update<OFFSET>(above, before, changed, rim(y - 1), site - width, next_salt, column, chances);
            if (stores)
                __stcs(reinterpret_cast<uint2 *>(to + static_cast<size_t>(y - 1) * width), done);
        }
        before = above;
        above = changed;
        here = below;
        site += width;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    sweep(const unsigned char *__restrict__ from, unsigned char *__restrict__ to, const unsigned *__restrict__ accept,
          const unsigned *__restrict__ seed, int height, int width, int half)
{
    __shared__ unsigned chances[80];
    if (threadIdx.x < 80) {
        const int up = threadIdx.x % 8, outside = threadIdx.x / 16;
        const int sum = 2 * up + outside - 4, field = threadIdx.x / 8 % 2 ? sum : -sum;
        chances[threadIdx.x] = accept[min(max(field + 4, 0), 8)];
    }
    __syncthreads();
    const unsigned salt = half * 0x9E3779B9u + seed[0], next_salt = (half + 1) * 0x9E3779B9u + seed[0];
    if (width % 8 != 0) {
        ragged(from, to, chances, height, width, salt, next_salt);
        return;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.y * STRIP;
    const int x = ((static_cast<int>(blockIdx.x) * WARPS + warp) * LANES - 1 + lane) * 8;
    const bool inside = x >= 0 && x < width;
    Strip strip = {from + x, to + x, chances, height, width, first, min(first + STRIP, height), salt, next_salt};
    strip.site = static_cast<unsigned>(first - 1) * width + x;
    strip.inside = inside;
    strip.stores = inside && lane > 0 && lane <= LANES;
    strip.column.inside = inside ? ALL : 0;
    strip.column.left_out = x == 0 ? 16u : 0u;
    strip.column.right_out = x + 8 == width ? 16u << 24 : 0u;
    strip.column.four = 4 * gridDim.z;
    strip.before = make_uint2(0, 0);
    strip.above = strip.load(first - 2);
    strip.here = strip.load(first - 1);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        strip.queue[i] = strip.load(first + i);
    // Strips begin at even rows, and half steps of a sweep are even and odd.
    for (int y = first - 1; y <= strip.last; y += 2) {
        strip.walk<1>(y);
        if (y < strip.last)
            strip.walk<0>(y + 1);
    }
}
