#define THREADS 512
#define EACH 16
#define FULL 0xffffffffu

// The pixels that vote, as a list in any order: a block counts its own before it takes its place.
extern "C" __global__ void __launch_bounds__(256)
    gather(const unsigned char *__restrict__ image, int *__restrict__ list, int *__restrict__ count, int height,
           int width, int limit)
{
    __shared__ int warps[8], start;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pixels = height * width;
    const int first = (blockIdx.x * 256 + threadIdx.x) * EACH;
    unsigned votes = 0;
    if (first + EACH <= pixels) {
        const uint4 own = __ldcs(reinterpret_cast<const uint4 *>(image + first));
#pragma unroll
        for (int s = 0; s < EACH; s++)
            if (static_cast<int>(reinterpret_cast<const unsigned *>(&own)[s / 4] >> s % 4 * 8 & 255u) >= limit)
                votes |= 1u << s;
    } else {
        for (int s = 0; s < EACH && first + s < pixels; s++)
            votes |= static_cast<unsigned>(image[first + s] >= limit) << s;
    }
    int before = __popc(votes);
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int more = __shfl_up_sync(FULL, before, offset);
        before += lane >= offset ? more : 0;
    }
    if (lane == 31)
        warps[warp] = before;
    __syncthreads();
    if (threadIdx.x == 0) {
        int all = 0;
        for (int w = 0; w < 8; w++) {
            const int more = warps[w];
            warps[w] = all;
            all += more;
        }
        start = all ? atomicAdd(count, all) : 0;
    }
    __syncthreads();
    int *to = list + start + warps[warp] + before - __popc(votes);
    const int line = first / width, col = first - line * width;
    for (; votes; votes &= votes - 1) {
        int x = col + __ffs(votes) - 1, y = line;
        for (; x >= width; x -= width)
            y++;
        *to++ = y << 16 | x;
    }
}

// One block per angle and a share of the list: all of its distances are counted in shared memory. A thread takes
// neighbours in the list, adds up those of one distance, and lanes are far apart.
extern "C" __global__ void __launch_bounds__(THREADS)
    vote(const int *__restrict__ list, const int *__restrict__ count, const int *__restrict__ directions,
         int *__restrict__ votes, int bins)
{
    extern __shared__ int own[];
    for (int b = threadIdx.x; b < bins; b += THREADS)
        own[b] = 0;
    __syncthreads();
    const int angle = blockIdx.x, c = directions[2 * angle], s = directions[2 * angle + 1], total = *count;
    const int threads = gridDim.y * THREADS, share = (total + 4 * threads - 1) / (4 * threads) * 4;
    const int begin = min(total, (static_cast<int>(blockIdx.y) * THREADS + static_cast<int>(threadIdx.x)) * share);
    const int end = min(total, begin + share);
    int bin = 0, same = 0;
    for (int i = begin; i < end; i += 4) {
        const int4 four = __ldg(reinterpret_cast<const int4 *>(list + i));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int place = reinterpret_cast<const int *>(&four)[e];
            const int next = i + e < end ? (((place & 0xffff) * c + (place >> 16) * s) >> 14) + bins / 2 : bin;
            if (next != bin) {
                if (same)
                    atomicAdd(own + bin, same);
                same = 0;
            }
            bin = next;
            same += i + e < end;
        }
    }
    if (same)
        atomicAdd(own + bin, same);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += THREADS)
        if (own[b])
            atomicAdd(votes + static_cast<size_t>(angle) * bins + b, own[b]);
}
