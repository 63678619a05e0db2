#define THREADS 512
#define GATHERERS 256
#define FULL 0xffffffffu

// The pixels that vote, as a list in any order: sixteen pixels a thread, one place in the list for a whole block.
extern "C" __global__ void __launch_bounds__(GATHERERS)
    gather(const unsigned char *__restrict__ image, int *__restrict__ list, int *__restrict__ count, int height,
           int width, int limit)
{
    __shared__ int sums[GATHERERS / 32], begin;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pixels = height * width;
    const int first = (blockIdx.x * GATHERERS + threadIdx.x) * 16;
    unsigned votes = 0;
    if (first + 16 <= pixels) {
        const uint4 v = __ldg(reinterpret_cast<const uint4 *>(image + first));
        const unsigned word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int p = 0; p < 16; p++)
            votes |= static_cast<unsigned>(static_cast<int>(word[p / 4] >> p % 4 * 8 & 255u) >= limit) << p;
    } else {
        for (int p = 0; first + p < pixels; p++)
            votes |= static_cast<unsigned>(image[first + p] >= limit) << p;
    }
    int upto = __popc(votes);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(FULL, upto, step);
        upto += lane >= step ? other : 0;
    }
    if (lane == 31)
        sums[warp] = upto;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
#pragma unroll
        for (int w = 0; w < GATHERERS / 32; w++) {
            const int own = sums[w];
            sums[w] = total;
            total += own;
        }
        begin = total ? atomicAdd(count, total) : 0;
    }
    __syncthreads();
    int place = begin + sums[warp] + upto - __popc(votes);
    for (; votes; votes &= votes - 1) {
        const int pixel = first + __ffs(votes) - 1, y = pixel / width;
        list[place++] = y << 16 | (pixel - y * width);
    }
}

// One block per angle and a share of the list: all of its distances are counted in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS)
    vote(const int *__restrict__ list, const int *__restrict__ count, const int *__restrict__ directions,
         int *__restrict__ votes, int bins)
{
    extern __shared__ int own[];
    for (int b = threadIdx.x; b < bins; b += THREADS)
        own[b] = 0;
    __syncthreads();
    const int angle = blockIdx.x, c = directions[2 * angle], s = directions[2 * angle + 1], total = *count;
#pragma unroll 4
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < total; i += gridDim.y * THREADS) {
        const int place = __ldg(list + i);
        atomicAdd(own + (((place & 0xffff) * c + (place >> 16) * s) >> 14) + bins / 2, 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += THREADS)
        if (own[b])
            atomicAdd(votes + static_cast<size_t>(angle) * bins + b, own[b]);
}
