#define WARPS 32
#define THREADS (32 * WARPS)
#define EACH 2
#define FULL 0xffffffffu

// A pixel (x, y) votes for bin (x * c + y * s) >> 14. In a row, the pixels whose bin is at least b are those from some x on
// (up to it where c is negative), so that a row's counts up to each pixel answer for all bins, without a vote. Summed over
// rows, a bin's votes are the difference of two such sums. A block has a band of rows and a share of angles and bins; a
// lane walks down the band along the edges of two bins.
struct Angle {
    int c, s, lowest, bins;
};

// The bins that rows `first` to `last` meet.
__device__ __forceinline__ Angle angle_of(const int *__restrict__ directions, int angle, int first, int last, int width)
{
    const int c = __ldg(directions + 2 * angle), s = __ldg(directions + 2 * angle + 1);
    const int low = (min(0, (width - 1) * c) + min(first * s, last * s)) >> 14;
    const int high = (max(0, (width - 1) * c) + max(first * s, last * s)) >> 14;
    return {c, s, low, high - low + 1};
}

__device__ __forceinline__ int sum_upto(int own, int lane)
{
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(FULL, own, step);
        own += lane >= step ? other : 0;
    }
    return own;
}

// How many of a row's pixels before each are bright, and of all; by a warp.
__device__ __forceinline__ void count_row(const unsigned char *__restrict__ from, unsigned short *to, int width, int limit)
{
    const int lane = threadIdx.x % 32;
    int total = 0;
    if (width % 16 == 0) {
#pragma unroll 2
        for (int base = 0; base < width; base += 512) {
            const int x = base + 16 * lane;
            const uint4 v = __ldg(reinterpret_cast<const uint4 *>(from + min(x, width - 16)));
            const unsigned word[4] = {v.x, v.y, v.z, v.w};
            unsigned pair[8];
            int sum = 0;
#pragma unroll
            for (int p = 0; p < 16; p++) {
                pair[p / 2] = p % 2 == 0 ? sum : pair[p / 2] | sum << 16;
                sum += static_cast<int>(word[p / 4] >> p % 4 * 8 & 255u) >= limit;
            }
            sum = x < width ? sum : 0;
            const int upto = sum_upto(sum, lane);
            const unsigned before = (total + upto - sum) * 0x00010001u;
            total += __shfl_sync(FULL, upto, 31);
            if (x < width) {
                uint4 *sixteen = reinterpret_cast<uint4 *>(to + x);
                sixteen[0] = make_uint4(pair[0] + before, pair[1] + before, pair[2] + before, pair[3] + before);
                sixteen[1] = make_uint4(pair[4] + before, pair[5] + before, pair[6] + before, pair[7] + before);
            }
        }
    } else {
        for (int base = 0; base < width; base += 32) {
            const int x = base + lane;
            const unsigned bright = __ballot_sync(FULL, x < width && __ldg(from + min(x, width - 1)) >= limit);
            if (x < width)
                to[x] = total + __popc(bright & (1u << lane) - 1);
            total += __popc(bright);
        }
    }
    if (lane == 0)
        to[width] = total;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    vote(const unsigned char *__restrict__ image, const int *__restrict__ directions, int *__restrict__ votes, int height,
         int width, int angles, int bins, int limit, int rows)
{
    extern __shared__ __align__(16) unsigned short counts[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = (width + 8) / 8 * 8;
    double *inverses = reinterpret_cast<double *>(counts + rows * pitch);
    int *starts = reinterpret_cast<int *>(inverses + angles);
    const int first = blockIdx.x * rows, last = min(first + rows, height) - 1;
    for (int row = warp; row <= last - first; row += WARPS)
        count_row(image + static_cast<size_t>(first + row) * width, counts + row * pitch, width, limit);
    // An edge's places are pixels in 2^-32; one division an angle.
    for (int angle = threadIdx.x; angle < angles; angle += THREADS) {
        const int c = __ldg(directions + 2 * angle);
        inverses[angle] = c ? 4294967296.0 / c : 0.0;
    }
    // A warp takes EACH times 31 bins of an angle: where each angle's begin.
    if (warp == 0) {
        int total = 0;
        for (int base = 0; base < angles; base += 32) {
            const int own = base + lane < angles
                                ? (angle_of(directions, base + lane, first, last, width).bins + EACH * 31 - 1) / (EACH * 31)
                                : 0;
            const int upto = sum_upto(own, lane);
            if (base + lane < angles)
                starts[base + lane] = total + upto - own;
            total += __shfl_sync(FULL, upto, 31);
        }
        if (lane == 0)
            starts[angles] = total;
    }
    __syncthreads();
    const char *bytes = reinterpret_cast<const char *>(counts);
    const int items = starts[angles];
    for (int item = blockIdx.y * WARPS + warp; item < items; item += gridDim.y * WARPS) {
        int angle = 0;
        for (int low = 1, high = angles; low < high;) {
            const int middle = (low + high) / 2;
            const bool reached = starts[middle] <= item;
            angle = reached ? middle : angle;
            low = reached ? middle + 1 : low;
            high = reached ? high : middle;
        }
        const Angle line = angle_of(directions, angle, first, last, width);
        const int begin = (item - starts[angle]) * EACH * 31 + lane;
        const unsigned short *row = counts;
        int sum[EACH] = {};
        if (line.c != 0) {
            // An edge: half of what a step of c or s makes is far more than all rounding.
            const double inverse = inverses[angle];
            const long long step = __double2ll_rn(-line.s * inverse);
            long long edge[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int ahead = (line.lowest + begin + e * 31 << 14) - first * line.s;
                edge[e] = __double2ll_rn((ahead - 0.5) * inverse) + (1ll << 32);
            }
#pragma unroll 8
            for (int y = 0, at = 0; y <= last - first; y++, at += 2 * pitch)
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    const int x = __vimin_s32_relu(static_cast<int>(edge[e] >> 32), width);
                    sum[e] += *reinterpret_cast<const unsigned short *>(bytes + (2 * x + at));
                    edge[e] += step;
                }
        } else {
            for (int y = first; y <= last; y++, row += pitch)
#pragma unroll
                for (int e = 0; e < EACH; e++)
                    sum[e] += (line.lowest + begin + e * 31 << 14) - y * line.s > 0 ? row[width] : 0;
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int next = __shfl_down_sync(FULL, sum[e], 1), found = line.c < 0 ? sum[e] - next : next - sum[e];
            const int offset = begin + e * 31;
            if (lane < 31 && offset < line.bins && found)
                atomicAdd(votes + static_cast<size_t>(angle) * bins + line.lowest + offset + bins / 2, found);
        }
    }
}
