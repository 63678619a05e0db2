// A warp a knapsack, its table in shared memory, filled from the top down in place: no barriers. Items come by falling
// worth a weight, so that most cannot improve most rooms: two cells of the rising table bound what an item can do to
// 64 rooms, which are then left alone. Rooms that hold all items so far are not filled in until an item is too much.
#define MOST 8192
#define ROOMS 64
#define CHECKS (MOST / ROOMS / 32)
#define EACH 4
#define ITEMS (32 * EACH)
#define FULL 0xffffffffu

// Where a room's cell is: lanes that look at rooms of neighbouring segments find them in different banks.
__device__ __forceinline__ int at(int room)
{
    return room + room / ROOMS;
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
    __shared__ int table[MOST + MOST / ROOMS];
    __shared__ int2 sorted[ITEMS];
    __shared__ float rates[ITEMS];
    const int lane = threadIdx.x;
    const size_t sack = blockIdx.x;
    // Rooms from `reach` on hold `total`; the table is filled in up to there.
    int reach = 0, total = 0;
    if (lane == 0)
        table[0] = 0;
    for (int from = 0; from < items; from += ITEMS) {
        const int count = min(ITEMS, items - from);
        sort_items(weights + sack * items + from, worths + sack * items + from, count, rates, sorted);
        for (int k = 0; k < count; k++) {
            const int weight = sorted[k].x, worth = sorted[k].y;
            const int next_reach = min(reach + weight, MOST), top = min(next_reach, capacity);
            unsigned active[CHECKS];
#pragma unroll
            for (int c = 0; c < CHECKS; c++) {
                const int first = (32 * c + lane) * ROOMS, last = first + ROOMS - 1;
                const int gain = worth - table[at(min(max(first, weight), reach))];
                const bool better = last >= weight && gain + table[at(max(min(last - weight, reach), 0))] > 0;
                active[c] = __ballot_sync(FULL, first <= top && (better || last > reach));
            }
            const auto value_of = [&](int room) {
                const int own = room > reach ? total : table[at(room)];
                return room < weight ? own : max(own, table[at(min(room - weight, reach))] + worth);
            };
            // Two segments at once: a room takes from lower ones only, which are not yet changed.
#pragma unroll
            for (int c = CHECKS - 1; c >= 0; c--)
                for (unsigned left = active[c]; left != 0;) {
                    const int high = 31 - __clz(left);
                    left ^= 1u << high;
                    const int low = left != 0 ? 31 - __clz(left) : high;
                    left &= ~(1u << low);
                    const int above = (32 * c + high) * ROOMS + lane, below = (32 * c + low) * ROOMS + lane;
                    const int four[4] = {value_of(above), value_of(above + 32), value_of(below), value_of(below + 32)};
                    __syncwarp();
                    table[at(above)] = four[0];
                    table[at(above + 32)] = four[1];
                    table[at(below)] = four[2];
                    table[at(below + 32)] = four[3];
                }
            __syncwarp();
            reach = next_reach;
            total += worth;
        }
    }
    int *out = best + sack * (capacity + 1);
#pragma unroll 8
    for (int room = lane; room <= capacity; room += 32)
        out[room] = room > reach ? total : table[at(room)];
}
