#define THREADS 256
#define WARPS (THREADS / 32)
#define NODES 32
#define SHARE 64
#define MAP 4096
#define ROOM 64
#define FULL 0xffffffffu

__device__ __forceinline__ bool contains(const int *__restrict__ targets, int low, int high, int wanted)
{
    while (low < high) {
        const int middle = (low + high) / 2;
        if (__ldg(targets + middle) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return __ldg(targets + low) == wanted;
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

// The low bits of each target in two bytes; the last eight are filled up.
extern "C" __global__ void __launch_bounds__(256)
    narrow(const int *__restrict__ targets, uint4 *__restrict__ lows, int edges)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 8 >= edges)
        return;
    unsigned words[4];
    if (i * 8 + 8 <= edges) {
        const int4 a = __ldg(reinterpret_cast<const int4 *>(targets) + 2 * i);
        const int4 b = __ldg(reinterpret_cast<const int4 *>(targets) + 2 * i + 1);
        words[0] = a.x % MAP | a.y % MAP << 16;
        words[1] = a.z % MAP | a.w % MAP << 16;
        words[2] = b.x % MAP | b.y % MAP << 16;
        words[3] = b.z % MAP | b.w % MAP << 16;
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int e = i * 8 + 2 * k;
            words[k] = (e < edges ? targets[e] % MAP : 0) | (e + 1 < edges ? targets[e + 1] % MAP : 0) << 16;
        }
    }
    lows[i] = make_uint4(words[0], words[1], words[2], words[3]);
}

// Eight targets at an aligned place, and which of them are in the list that they are asked for.
struct Piece {
    uint4 lows;
    int at;
    unsigned valid;
};

// Piece `base + lane` of the lists of 32 neighbours laid end to end. `start` is where a lane's list starts; every list has
// a piece, so that no two start at the same place.
__device__ __forceinline__ Piece fetch(const uint4 *__restrict__ lows, int base, int lane, int begin, int end, int start,
                                       int &passed)
{
    const unsigned starts = __reduce_or_sync(FULL, start >= base && start < base + 32 ? 1u << (start - base) : 0);
    const int owner = passed + __popc(starts & (FULL >> (31 - lane))) - 1;
    passed += __popc(starts);
    const int first = __shfl_sync(FULL, begin, owner), last = __shfl_sync(FULL, end, owner);
    Piece piece = {make_uint4(0, 0, 0, 0), first / 8 * 8 + (base + lane - __shfl_sync(FULL, start, owner)) * 8, 0};
    if (piece.at < last) {
        piece.valid = (1u << min(last - piece.at, 8)) - (1u << max(first - piece.at, 0));
        piece.lows = __ldg(lows + piece.at / 8);
    }
    return piece;
}

struct Place {
    unsigned char marked[MAP];
    int listed[ROOM];
};

// Whether the target of this lane's listed edge is in the list from low to high.
__device__ __forceinline__ int look_up(const Place &place, int first, int several, const int *__restrict__ targets, int low,
                                       int high, int lane)
{
    return lane < several && contains(targets, low, high, __ldg(targets + place.listed[first + lane]));
}

// A warp marks a node's neighbours in a map in shared memory, a byte each, by the low bits of their numbers, and asks for each
// neighbour of a neighbour whether it is marked, eight a lane at a time. The few that are get listed and looked up
// together. The neighbours of a block's nodes are dealt out 64 at a time, so that nobody is left alone with a node that has
// many.
extern "C" __global__ void __launch_bounds__(THREADS, 5)
    count_triangles(const int *__restrict__ offsets, const int *__restrict__ targets, const uint4 *__restrict__ lows,
                    unsigned long long *__restrict__ triangles, int nodes)
{
    __shared__ __align__(16) Place places[WARPS];
    __shared__ int part[WARPS];
    __shared__ int dealt;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned below = (1u << lane) - 1;
    Place &place = places[warp];
    if (threadIdx.x == 0)
        dealt = 0;
    for (int w = lane; w < MAP / 16; w += 32)
        reinterpret_cast<uint4 *>(place.marked)[w] = make_uint4(0, 0, 0, 0);
    const int node = blockIdx.x * NODES + lane;
    const int node_begin = node < nodes ? __ldg(offsets + node) : 0;
    const int node_end = node < nodes ? __ldg(offsets + node + 1) : 0;
    const int shares = (node_end - node_begin + SHARE - 1) / SHARE, shares_upto = inclusive(shares, lane);
    const int all_shares = __shfl_sync(FULL, shares_upto, 31);
    __syncthreads();
    int found = 0;
    while (true) {
        int share = 0;
        if (lane == 0)
            share = atomicAdd(&dealt, 1);
        share = __shfl_sync(FULL, share, 0);
        if (share >= all_shares)
            break;
        const int from = __popc(__ballot_sync(FULL, shares_upto <= share));
        const int own = __shfl_sync(FULL, node_begin, from), own_end = __shfl_sync(FULL, node_end, from);
        const int share_begin = own + (share - __shfl_sync(FULL, shares_upto - shares, from)) * SHARE;
        const int share_end = min(share_begin + SHARE, own_end);
        for (int i = own + lane; i < own_end; i += 32)
            place.marked[static_cast<unsigned>(__ldg(targets + i)) % MAP] = 1;
        __syncwarp();
        int listed = 0;
        for (int some = share_begin; some < share_end; some += 32) {
            int begin = 0, end = 0, pieces = 0;
            if (some + lane < share_end) {
                const int middle = __ldg(targets + some + lane);
                begin = __ldg(offsets + middle);
                end = __ldg(offsets + middle + 1);
                pieces = max((end + 7) / 8 - begin / 8, 1);
            }
            const int upto = inclusive(pieces, lane);
            const int total = __shfl_sync(FULL, upto, 31);
            const int start = pieces > 0 ? upto - pieces : total + 32;
            int passed = 0;
            Piece next = fetch(lows, 0, lane, begin, end, start, passed);
            for (int base = 0; base < total; base += 32) {
                const Piece piece = next;
                if (base + 32 < total)
                    next = fetch(lows, base + 32, lane, begin, end, start, passed);
                const unsigned words[4] = {piece.lows.x, piece.lows.y, piece.lows.z, piece.lows.w};
                unsigned hits = 0;
#pragma unroll
                for (int k = 0; k < 8; k++)
                    hits |= (place.marked[words[k / 2] >> 16 * (k % 2) & 0xffff] != 0) << k;
                hits &= piece.valid;
                while (__any_sync(FULL, hits != 0)) {
                    const unsigned several = __ballot_sync(FULL, hits != 0);
                    if (hits != 0)
                        place.listed[listed + __popc(several & below)] = piece.at + __ffs(hits) - 1;
                    hits &= hits - 1;
                    listed += __popc(several);
                    __syncwarp();
                    if (listed >= 32) {
                        listed -= 32;
                        found += look_up(place, listed, 32, targets, own, own_end - 1, lane);
                        __syncwarp();
                    }
                }
            }
        }
        found += look_up(place, 0, listed, targets, own, own_end - 1, lane);
        __syncwarp();
        for (int i = own + lane; i < own_end; i += 32)
            place.marked[static_cast<unsigned>(__ldg(targets + i)) % MAP] = 0;
        __syncwarp();
    }
    found = __reduce_add_sync(FULL, found);
    if (lane == 0)
        part[warp] = found;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned long long total = 0;
        for (int w = 0; w < WARPS; w++)
            total += part[w];
        if (total > 0)
            atomicAdd(triangles, total);
    }
}
