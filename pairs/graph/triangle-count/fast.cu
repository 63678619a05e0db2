#define THREADS 128
#define WARPS (THREADS / 32)
#define NODES 4
#define WORDS 512
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

struct Piece {
    int4 nodes;
    unsigned valid;
};

// Piece `at` of the lists of 32 neighbours laid end to end: four targets at an aligned address, and which of them are the
// neighbour's. `start` is where a lane's list starts; every list has a piece, so that no two start at the same place.
__device__ __forceinline__ Piece fetch(const int *__restrict__ targets, int edges, int base, int lane, int begin, int end,
                                       int start, int &passed)
{
    const unsigned starts = __reduce_or_sync(FULL, start >= base && start < base + 32 ? 1u << (start - base) : 0);
    const int owner = passed + __popc(starts & (FULL >> (31 - lane))) - 1;
    passed += __popc(starts);
    const int first = __shfl_sync(FULL, begin, owner), last = __shfl_sync(FULL, end, owner);
    const int at = first / 4 * 4 + (base + lane - __shfl_sync(FULL, start, owner)) * 4;
    Piece piece = {make_int4(0, 0, 0, 0), 0};
    if (at < last) {
        const int skip = max(first - at, 0), keep = min(last - at, 4);
        piece.valid = (1u << keep) - (1u << skip);
        if (at + 4 <= edges) {
            piece.nodes = __ldg(reinterpret_cast<const int4 *>(targets + at));
        } else {
            piece.nodes.x = targets[at];
            piece.nodes.y = at + 1 < edges ? targets[at + 1] : 0;
            piece.nodes.z = at + 2 < edges ? targets[at + 2] : 0;
        }
    }
    return piece;
}

__device__ __forceinline__ unsigned marked(const unsigned *marks, unsigned node)
{
    return marks[node / 32 % WORDS] >> node % 32 & 1;
}

// A warp marks a node's neighbours as bits in shared memory, by the low bits of their numbers, and asks for each neighbour
// of a neighbour whether it is marked. Only the few that are get looked up in the list.
extern "C" __global__ void __launch_bounds__(THREADS, 12)
    count_triangles(const int *__restrict__ offsets, const int *__restrict__ targets,
                    unsigned long long *__restrict__ triangles, int nodes, int edges)
{
    __shared__ unsigned all_marks[WARPS][WORDS];
    __shared__ int part[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned *marks = all_marks[warp];
    for (int w = lane; w < WORDS / 4; w += 32)
        reinterpret_cast<uint4 *>(marks)[w] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    const int first_node = (blockIdx.x * WARPS + warp) * NODES;
    int found = 0;
    for (int node = first_node; node < min(first_node + NODES, nodes); node++) {
        const int own = __ldg(offsets + node), own_end = __ldg(offsets + node + 1);
        for (int i = own + lane; i < own_end; i += 32) {
            const unsigned target = __ldg(targets + i);
            atomicOr(marks + target / 32 % WORDS, 1u << target % 32);
        }
        __syncwarp();
        for (int some = own; some < own_end; some += 32) {
            int begin = 0, end = 0, pieces = 0;
            if (some + lane < own_end) {
                const int middle = __ldg(targets + some + lane);
                begin = __ldg(offsets + middle);
                end = __ldg(offsets + middle + 1);
                pieces = max((end + 3) / 4 - begin / 4, 1);
            }
            const int upto = inclusive(pieces, lane);
            const int total = __shfl_sync(FULL, upto, 31);
            const int start = pieces > 0 ? upto - pieces : total + 32;
            int passed = 0;
            Piece next = fetch(targets, edges, 0, lane, begin, end, start, passed);
            for (int base = 0; base < total; base += 32) {
                const Piece piece = next;
                if (base + 32 < total)
                    next = fetch(targets, edges, base + 32, lane, begin, end, start, passed);
                unsigned hits = marked(marks, piece.nodes.x) | marked(marks, piece.nodes.y) << 1 |
                                marked(marks, piece.nodes.z) << 2 | marked(marks, piece.nodes.w) << 3;
                hits &= piece.valid;
                while (hits) {
                    const int wanted = hits & 1   ? piece.nodes.x
                                       : hits & 2 ? piece.nodes.y
                                       : hits & 4 ? piece.nodes.z
                                                  : piece.nodes.w;
                    hits &= hits - 1;
                    found += contains(targets, own, own_end - 1, wanted);
                }
            }
        }
        __syncwarp();
        for (int i = own + lane; i < own_end; i += 32)
            marks[static_cast<unsigned>(__ldg(targets + i)) / 32 % WORDS] = 0;
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
