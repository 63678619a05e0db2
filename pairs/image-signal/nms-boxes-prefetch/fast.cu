// One cooperative launch without a table of overlaps. A warp settles OWN boxes: it goes over the earlier ones 32 at a
// time, drops those that do not touch by four comparisons, and looks up, or waits for, what became of the few that
// overlap. Chains of boxes that wait for each other are short, and a struck box needs no further looks.
#define OWN 4
#define WARPS 16
#define FULL 0xffffffffu

typedef unsigned long long word;

struct Box {
    int left, top, right, bottom;
};

__device__ __forceinline__ Box box_at(const int2 *__restrict__ corners, const int2 *__restrict__ extents, int i)
{
    const int2 corner = __ldg(corners + i), extent = __ldg(extents + i);
    return {corner.x, corner.y, corner.x + extent.x, corner.y + extent.y};
}

__device__ __forceinline__ bool touch(const Box &a, const Box &b)
{
    return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// Whether two boxes that touch share more than half of what they cover.
__device__ __forceinline__ bool overlap(const Box &a, const Box &b)
{
    const int w = min(a.right, b.right) - max(a.left, b.left), h = min(a.bottom, b.bottom) - max(a.top, b.top);
    return 3 * w * h > (a.right - a.left) * (a.bottom - a.top) + (b.right - b.left) * (b.bottom - b.top);
}

// Whether one of the boxes of the mask stays. A word of the state has those that stay below, those settled above.
__device__ __forceinline__ bool any_stays(const word *state, unsigned mask)
{
    for (;;) {
        word now;
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(state) : "memory");
        if (static_cast<unsigned>(now) & mask)
            return true;
        if (!(mask & ~static_cast<unsigned>(now >> 32)))
            return false;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    settle(const int2 *__restrict__ corners, const int2 *__restrict__ extents, word *state,
           unsigned char *__restrict__ keep, int n)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, groups = (n + OWN - 1) / OWN;
    // A warp's groups ascend, so that the first unsettled one never waits.
    for (int group = warp * gridDim.x + blockIdx.x; group < groups; group += WARPS * gridDim.x) {
        const int first = group * OWN, last = first / 32;
        Box own[OWN];
        bool struck[OWN];
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            own[k] = box_at(corners, extents, min(first + k, n - 1));
            struck[k] = first + k >= n;
        }
        const auto settled = [&](int k, bool stays) {
            if (lane == 0) {
                atomicOr(state + last, (1ull << 32 | stays) << ((first + k) % 32));
                keep[first + k] = stays;
            }
        };
        int2 corner = __ldg(corners + min(lane, n - 1)), extent = __ldg(extents + min(lane, n - 1));
        for (int t = 0; t <= last; t++) {
            const Box other = {corner.x, corner.y, corner.x + extent.x, corner.y + extent.y};
            const int ahead = min(32 * (t + 1) + lane, n - 1);
            corner = __ldg(corners + ahead), extent = __ldg(extents + ahead);
            bool near[OWN], any = false;
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                near[k] = touch(own[k], other);
                any |= near[k];
            }
            if (!__any_sync(FULL, any))
                continue;
            const bool earlier = 32 * t + lane < first;
            bool all = true;
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                const unsigned mask = __ballot_sync(FULL, near[k] && earlier && overlap(own[k], other));
                if (mask && !struck[k] && any_stays(state + t, mask)) {
                    struck[k] = true;
                    settled(k, false);
                }
                all &= struck[k];
            }
            if (all)
                break;
        }
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            if (struck[k])
                continue;
#pragma unroll
            for (int before = 0; before < k; before++)
                struck[k] |= !struck[before] && touch(own[k], own[before]) && overlap(own[k], own[before]);
            settled(k, !struck[k]);
        }
    }
}
