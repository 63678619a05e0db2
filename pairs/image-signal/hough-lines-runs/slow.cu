#define THREADS 512
#define FULL 0xffffffffu

// The pixels that vote, as a list in any order.
extern "C" __global__ void __launch_bounds__(256)
    gather(const unsigned char *__restrict__ image, int *__restrict__ list, int *__restrict__ count, int height,
           int width, int limit)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const bool votes = x < width && y < height && image[static_cast<size_t>(y) * width + x] >= limit;
    const unsigned all = __ballot_sync(FULL, votes);
    int first = 0;
    if (threadIdx.x == 0 && all)
        first = atomicAdd(count, __popc(all));
    first = __shfl_sync(FULL, first, 0);
    if (votes)
        list[first + __popc(all & ((1u << threadIdx.x) - 1))] = y << 16 | x;
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
