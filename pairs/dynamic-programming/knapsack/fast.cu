// A warp a knapsack, its table in shared memory, filled from the top down in place: no barriers. Items come by falling
// worth a weight, so that most cannot improve most rooms: two cells of the rising table bound what an item can do to
// 64 rooms, which are then left alone. Rooms far beyond all items so far are not in the table yet.
#define MOST 8192
#define ROOMS 64
#define CHECKS (MOST / ROOMS / 32)
#define GROUP (4 * ROOMS)
#define EACH 4
#define ITEMS (32 * EACH)
#define FULL 0xffffffffu

// Where a room's cell is: lanes that look at rooms of neighbouring segments find them in different banks.
__device__ __forceinline__ int at(int room)
{
    return room + (room >> 6);
}

// Puts up to ITEMS items of a knapsack in the order of falling worth a weight.
__device__ __forceinline__ void sort_items(const int *__restrict__ weights, const int *__restrict__ worths, int count,
                                           float *rates, int2 *sorted)
{
    const int lane = threadIdx.x;
    int2 own[EACH];
    float rate[EACH];
    int rank[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int item = lane + 32 * e;
        own[e] = item < count ? make_int2(min(weights[item], MOST), max(worths[item], 0)) : make_int2(0, 0);
        rate[e] = static_cast<float>(own[e].y) / static_cast<float>(max(own[e].x, 1));
        rank[e] = 0;
        rates[item] = rate[e];
    }
    __syncwarp();
#pragma unroll 4
    for (int other = 0; other < count; other++) {
        const float theirs = rates[other];
#pragma unroll
        for (int e = 0; e < EACH; e++)
            rank[e] += theirs > rate[e] || (theirs == rate[e] && other < lane + 32 * e);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (lane + 32 * e < count)
            sorted[rank[e]] = own[e];
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(32)
    pack(const int *__restrict__ weights, const int *__restrict__ worths, int *__restrict__ best, int items,
         int capacity)
{
    // Below the table, rooms that are less than nothing, for items that do not fit.
    __shared__ int cells[MOST + MOST / ROOMS + GROUP + GROUP / ROOMS];
    __shared__ int2 sorted[ITEMS];
    __shared__ float rates[ITEMS];
    int *table = cells + GROUP + GROUP / ROOMS;
    const int lane = threadIdx.x;
    const size_t sack = blockIdx.x;
    for (int room = lane - GROUP; room < GROUP; room += 32)
        table[at(room)] = room < 0 ? -0x40000000 : 0;
    // All items so far weigh `reach` and are worth `total`, which every room from `filled` on holds.
    int reach = 0, total = 0, filled = GROUP;
    for (int from = 0; from < items; from += ITEMS) {
        const int count = min(ITEMS, items - from);
        sort_items(weights + sack * items + from, worths + sack * items + from, count, rates, sorted);
        for (int k = 0; k < count; k++) {
            const int weight = sorted[k].x, worth = sorted[k].y;
            reach = min(reach + weight, capacity);
            for (; filled <= reach; filled += GROUP)
#pragma unroll
                for (int r = 0; r < GROUP / 32; r++)
                    table[at(filled + 32 * r + lane)] = total;
            __syncwarp();
            total += worth;
            unsigned active[CHECKS];
#pragma unroll
            for (int c = 0; c < CHECKS; c++) {
                const int first = (32 * c + lane) * ROOMS, last = first + ROOMS - 1;
                const int least = table[at(min(max(first, weight), MOST - 1))], most = table[at(max(last - weight, 0))];
                active[c] = __ballot_sync(FULL, (first < filled) & (last >= weight) & (most + worth > least));
            }
            // Four segments at once: a room takes from lower ones only, which are not yet changed. Those among them
            // that could have been left alone come to no harm.
#pragma unroll
            for (int c = CHECKS - 1; c >= 0; c--) {
                unsigned left = active[c];
                int group = left != 0 ? (31 - __clz(left)) / 4 : -1;
                while (group >= 0) {
                    const int first = (32 * c + 4 * group) * ROOMS + lane;
                    left &= (1u << 4 * group) - 1;
                    group = left != 0 ? (31 - __clz(left)) / 4 : -1;
                    int *own = table + at(first);
                    const int *even = table + at(first - weight), *odd = table + at(first + 32 - weight);
                    int value[GROUP / 32];
#pragma unroll
                    for (int r = 0; r < GROUP / 32; r++)
                        value[r] = max(own[32 * r + r / 2], (r % 2 ? odd : even)[r / 2 * (ROOMS + 1)] + worth);
                    __syncwarp();
#pragma unroll
                    for (int r = 0; r < GROUP / 32; r++)
                        own[32 * r + r / 2] = value[r];
                }
            }
            __syncwarp();
        }
    }
    int *out = best + sack * (capacity + 1);
#pragma unroll 8
    for (int room = lane; room <= capacity; room += 32)
        out[room] = room < filled ? table[at(room)] : total;
}
