#define FAR 30000
#define PART 64
#define THREADS 256

// Distances along columns within parts of 64 rows, then across the parts: parts are walked side by side.
extern "C" __global__ void __launch_bounds__(128)
    edges(const unsigned char *__restrict__ image, short2 *__restrict__ ends, int height, int width, int limit)
{
    const int x = blockIdx.x * 128 + threadIdx.x;
    if (x >= width)
        return;
    const int begin = blockIdx.y * PART, end = min(begin + PART, height);
    int first = FAR, last = FAR;
#pragma unroll 8
    for (int y = begin; y < end; y++) {
        if (image[static_cast<size_t>(y) * width + x] < limit) {
            first = min(first, y - begin);
            last = end - 1 - y;
        }
    }
    ends[static_cast<size_t>(blockIdx.y) * width + x] = make_short2(first, last);
}

extern "C" __global__ void __launch_bounds__(128)
    columns(const unsigned char *__restrict__ image, const short2 *__restrict__ ends, short *__restrict__ gaps,
            int height, int width, int limit)
{
    const int x = blockIdx.x * 128 + threadIdx.x;
    if (x >= width)
        return;
    const int parts = (height + PART - 1) / PART, part = blockIdx.y;
    const int begin = part * PART, end = min(begin + PART, height);
    int above = FAR, below = FAR;
    for (int p = part - 1; p >= 0; p--) {
        const int last = ends[static_cast<size_t>(p) * width + x].y;
        if (last < FAR) {
            above = last + (part - 1 - p) * PART;
            break;
        }
    }
    for (int p = part + 1; p < parts; p++) {
        const int first = ends[static_cast<size_t>(p) * width + x].x;
        if (first < FAR) {
            below = first + (p - part - 1) * PART;
            break;
        }
    }
    for (int y = begin; y < end; y++) {
        above = image[static_cast<size_t>(y) * width + x] < limit ? 0 : min(above + 1, FAR);
        gaps[static_cast<size_t>(y) * width + x] = above;
    }
    for (int y = end - 1; y >= begin; y--) {
        below = min(below + 1, static_cast<int>(gaps[static_cast<size_t>(y) * width + x]));
        gaps[static_cast<size_t>(y) * width + x] = below;
    }
}

// A row in shared memory; a pixel looks to both sides only as far as something nearer could stand.
extern "C" __global__ void __launch_bounds__(THREADS)
    rows(const short *__restrict__ gaps, int *__restrict__ squares, int width)
{
    extern __shared__ int row[];
    const size_t base = static_cast<size_t>(blockIdx.x) * width;
    for (int x = threadIdx.x; x < width; x += THREADS)
        row[x] = gaps[base + x] * gaps[base + x];
    __syncthreads();
    for (int x = threadIdx.x; x < width; x += THREADS) {
        int best = row[x];
        for (int d = 1; d * d < best; d++) {
            if (x - d < 0 && x + d >= width)
                break;
            if (x - d >= 0)
                best = min(best, d * d + row[x - d]);
            if (x + d < width)
                best = min(best, d * d + row[x + d]);
        }
        squares[base + x] = best;
    }
}
