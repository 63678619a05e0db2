// The network in two launches a level: all far steps in one, the fourteen near ones in the other. A thread has 32 keys
// in registers, which is five steps; keys change hands through shared memory in between. Launches go over the keys in
// turns upwards and downwards, so that each begins with what the last one left in L2.
#define THREADS 512
#define EACH 32
#define TILE_BITS 14
#define TILE (THREADS * EACH)
#define FULL 0xffffffffu
#define FAR 0x7fffffff

__device__ __forceinline__ void order(int &a, int &b)
{
    const int least = min(a, b);
    b = max(a, b);
    a = least;
}

// The place in a tile of a thread's key 0 when registers hold bits LOW to LOW + 4 of it; key k is k << LOW further on.
template <int LOW> __device__ __forceinline__ int place_of()
{
    const int t = threadIdx.x;
    return t >> LOW << (LOW + 5) | (t & ((1 << LOW) - 1));
}

// With a gap after each 32 keys no two lanes meet in a bank.
__device__ __forceinline__ constexpr int padded(int place)
{
    return place + (place >> 5);
}

// FLIPPED: the upper half of the registers holds keys from the other end, whose places have all bits below the half's
// inverted.
template <int LOW, bool FLIPPED> __device__ __forceinline__ void get(int (&key)[EACH], const int *tile)
{
    const int own = place_of<LOW>(), low = padded(own), high = FLIPPED ? padded(own ^ ((1 << LOW) - 1)) : low;
#pragma unroll
    for (int k = 0; k < EACH / 2; k++) {
        key[k] = tile[low + padded(k << LOW)];
        key[k + 16] = tile[high + padded((FLIPPED ? 31 - k : k + 16) << LOW)];
    }
}

template <int LOW, bool FLIPPED> __device__ __forceinline__ void put(const int (&key)[EACH], int *tile)
{
    const int own = place_of<LOW>(), low = padded(own), high = FLIPPED ? padded(own ^ ((1 << LOW) - 1)) : low;
#pragma unroll
    for (int k = 0; k < EACH / 2; k++) {
        tile[low + padded(k << LOW)] = key[k];
        tile[high + padded((FLIPPED ? 31 - k : k + 16) << LOW)] = key[k + 16];
    }
}

// Steps at register bits FROM down to TO.
template <int FROM, int TO> __device__ __forceinline__ void steps(int (&key)[EACH])
{
#pragma unroll
    for (int bit = FROM; bit >= TO; bit--)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if ((k >> bit & 1) == 0)
                order(key[k], key[k | 1 << bit]);
}

// The same where the upper half came flipped: its order is the other way round after the first step.
template <int TO> __device__ __forceinline__ void mirrored_steps(int (&key)[EACH])
{
    steps<4, 4>(key);
#pragma unroll
    for (int bit = 3; bit >= TO; bit--)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if ((k >> bit & 1) == 0) {
                if (k < EACH / 2)
                    order(key[k], key[k | 1 << bit]);
                else
                    order(key[k | 1 << bit], key[k]);
            }
}

// Waits for the threads that keys may come from: those of the warp where both sides of the exchange stay in its 1024.
template <bool WARP> __device__ __forceinline__ void wait()
{
    if (WARP)
        __syncwarp();
    else
        __syncthreads();
}

// Places at bits TOP down to 0 of keys that lie in shared memory and are held at LAST until now.
template <int TOP, int LAST> __device__ __forceinline__ void near_steps(int (&key)[EACH], int *tile)
{
    if constexpr (TOP >= 0) {
        constexpr int LOW = TOP > 4 ? TOP - 4 : 0;
        wait<(LAST <= 5)>();
        get<LOW, false>(key, tile);
        steps<TOP - LOW, 0>(key);
        put<LOW, false>(key, tile);
        near_steps<LOW - 1, LOW>(key, tile);
    }
}

template <int LEVEL, int LAST> __device__ __forceinline__ void levels(int (&key)[EACH], int *tile)
{
    if constexpr (LEVEL < TILE_BITS) {
        wait<(LAST <= 5 && LEVEL - 4 <= 5)>();
        get<LEVEL - 4, true>(key, tile);
        mirrored_steps<0>(key);
        put<LEVEL - 4, true>(key, tile);
        near_steps<LEVEL - 5, LEVEL - 4>(key, tile);
        levels<LEVEL + 1, 0>(key, tile);
    }
}

__device__ __forceinline__ void store(const int *tile, int *keys, int n)
{
    const int first = threadIdx.x / 32 * (32 * EACH) + threadIdx.x % 32, left = n - blockIdx.x * TILE;
    int *to = keys + blockIdx.x * TILE;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if (first + r * 32 < left)
            to[first + r * 32] = tile[padded(first + r * 32)];
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) sort_tiles(int *__restrict__ keys, int n)
{
    extern __shared__ int tile[];
    const int first = threadIdx.x / 32 * (32 * EACH) + threadIdx.x % 32, left = n - blockIdx.x * TILE;
    const int *from = keys + blockIdx.x * TILE;
    int key[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++)
        key[r] = first + r * 32 < left ? from[first + r * 32] : FAR;
#pragma unroll
    for (int r = 0; r < EACH; r++)
        tile[padded(first + r * 32)] = key[r];
    __syncwarp();
    get<0, false>(key, tile);
#pragma unroll
    for (int level = 0; level < 5; level++) {
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if ((k >> level & 1) == 0)
                order(key[k], key[k ^ ((2 << level) - 1)]);
#pragma unroll
        for (int bit = level - 1; bit >= 0; bit--)
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if ((k >> bit & 1) == 0)
                    order(key[k], key[k | 1 << bit]);
    }
    put<0, false>(key, tile);
    levels<5, 0>(key, tile);
    store(tile, keys, n);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) merge_tiles(int *__restrict__ keys, int n)
{
    extern __shared__ int tile[];
    const int left = n - blockIdx.x * TILE;
    const int *from = keys + blockIdx.x * TILE;
    int key[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++)
        key[k] = place_of<9>() + (k << 9) < left ? from[place_of<9>() + (k << 9)] : FAR;
    steps<4, 0>(key);
    put<9, false>(key, tile);
    near_steps<8, 9>(key, tile);
    store(tile, keys, n);
}

// How far apart keys lie whose places in a tile of rows differ by this much.
template <int COLUMN_BITS> __device__ __forceinline__ constexpr int far_apart(int places)
{
    return (places >> COLUMN_BITS << TILE_BITS) + (places & ((1 << COLUMN_BITS) - 1));
}

// The far steps of a level, the FARS bits from `level` down to bit 14 of a key's place. A tile is 2^FARS rows of
// adjoining keys, those of the upper half from the other end of their 2^level; the highest bits of a place in it are
// the row.
template <int FARS> __global__ void __launch_bounds__(THREADS, 2) mirror(int *__restrict__ keys, int n)
{
    extern __shared__ int tile[];
    constexpr int LEVEL = TILE_BITS + FARS - 1, COLUMN_BITS = TILE_BITS - FARS, COLUMNS = 1 << COLUMN_BITS;
    const int block = gridDim.x - 1 - blockIdx.x;
    const int part = (block & ((1 << FARS) - 1)) << COLUMN_BITS;
    const int first = block >> FARS << (LEVEL + 1);
    if (first + part >= n)
        return;
    // Keys 0 and 16: the first of one end and the last of the other.
    const int place = place_of<9>();
    const int low = first + (place >> COLUMN_BITS << TILE_BITS) + part + (place & (COLUMNS - 1));
    const int high = first + (2 << LEVEL) - 1 - (low - first);
    int key[EACH];
#pragma unroll
    for (int k = 0; k < EACH / 2; k++) {
        const int apart = far_apart<COLUMN_BITS>(k << 9);
        key[k] = low + apart < n ? keys[low + apart] : FAR;
        key[k + EACH / 2] = high - apart < n ? keys[high - apart] : FAR;
    }
    mirrored_steps<(FARS < 5 ? 5 - FARS : 0)>(key);
    if constexpr (FARS <= 5) {
#pragma unroll
        for (int k = 0; k < EACH / 2; k++) {
            const int apart = far_apart<COLUMN_BITS>(k << 9);
            if (low + apart < n)
                keys[low + apart] = key[k];
            if (high - apart < n)
                keys[high - apart] = key[k + EACH / 2];
        }
    } else {
        put<9, true>(key, tile);
        __syncthreads();
        get<4, false>(key, tile);
        steps<4, (FARS < 10 ? 10 - FARS : 0)>(key);
        if constexpr (FARS == 11) {
            const bool upper = threadIdx.x & 8;
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const int other = __shfl_xor_sync(FULL, key[k], 8);
                key[k] = upper ? max(key[k], other) : min(key[k], other);
            }
        }
        const int own = place_of<4>();
        const int own_part = own < TILE / 2 ? part : part ^ (((1 << FARS) - 1) << COLUMN_BITS);
        const int at = first + (own >> COLUMN_BITS << TILE_BITS) + own_part + (own & (COLUMNS - 1));
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (at + far_apart<COLUMN_BITS>(k << 4) < n)
                keys[at + far_apart<COLUMN_BITS>(k << 4)] = key[k];
    }
}
