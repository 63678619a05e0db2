#define FAR 30000
#define PART 64
#define THREADS 512
#define CHUNK 16

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

// The least of a chunk's squares, each with its distance from a pixel.
__device__ __forceinline__ int nearest_in(const int *row, int chunk, int x, int best)
{
    const int4 *quads = reinterpret_cast<const int4 *>(row + chunk * CHUNK);
    int d = chunk * CHUNK - x;
#pragma unroll
    for (int i = 0; i < CHUNK / 4; i++, d += 4) {
        const int4 v = quads[i];
        best = min(min(best, v.x + d * d), v.y + (d + 1) * (d + 1));
        best = min(min(best, v.z + (d + 2) * (d + 2)), v.w + (d + 3) * (d + 3));
    }
    return best;
}

// A row in shared memory, and the least of each 16. A pixel looks to both sides only as far as something nearer could
// stand, and only into chunks whose least could be nearer.
extern "C" __global__ void __launch_bounds__(THREADS)
    rows(const short *__restrict__ gaps, int *__restrict__ squares, int width)
{
    extern __shared__ __align__(16) int row[];
    const int chunks = (width + CHUNK - 1) / CHUNK;
    int *least = row + chunks * CHUNK;
    const size_t base = static_cast<size_t>(blockIdx.x) * width;
    for (int x = threadIdx.x; x < chunks * CHUNK; x += THREADS)
        row[x] = x < width ? gaps[base + x] * gaps[base + x] : FAR * FAR;
    __syncthreads();
    for (int chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        int smallest = row[chunk * CHUNK];
#pragma unroll
        for (int i = 1; i < CHUNK; i++)
            smallest = min(smallest, row[chunk * CHUNK + i]);
        least[chunk] = smallest;
    }
    __syncthreads();
    for (int x = threadIdx.x; x < width; x += THREADS) {
        const int own = x / CHUNK;
        int best = nearest_in(row, own, x, 2147483647);
        for (int k = 1;; k++) {
            const int left = own - k, right = own + k;
            const int before = x - left * CHUNK - (CHUNK - 1), after = right * CHUNK - x;
            const bool look_left = left >= 0 && before * before < best;
            const bool look_right = right < chunks && after * after < best;
            if (!look_left && !look_right)
                break;
            if (look_left && before * before + least[left] < best)
                best = nearest_in(row, left, x, best);
            if (look_right && after * after + least[right] < best)
                best = nearest_in(row, right, x, best);
        }
        squares[base + x] = best;
    }
}
