#define WORDS 16
#define THREADS 128
#define TILE 64
#define SHARE 2048

// |q - p|^2 = |q|^2 - 2 q.p + |p|^2, four bytes per instruction; one thread per query in registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    nearest(const int4 *__restrict__ queries, const int4 *__restrict__ points, unsigned long long *__restrict__ best,
            int m, int n)
{
    __shared__ int4 tile[TILE][WORDS / 4];
    __shared__ int squares[TILE];
    const int i = blockIdx.x * THREADS + threadIdx.x;
    int own[WORDS], square = 0;
#pragma unroll
    for (int q = 0; q < WORDS / 4; q++) {
        const int4 four = queries[static_cast<size_t>(min(i, m - 1)) * (WORDS / 4) + q];
        own[4 * q] = four.x, own[4 * q + 1] = four.y, own[4 * q + 2] = four.z, own[4 * q + 3] = four.w;
    }
#pragma unroll
    for (int w = 0; w < WORDS; w++)
        square = __dp4a(own[w], own[w], square);
    int least = 2147483647, index = 0;
    const int end = min(n, static_cast<int>(blockIdx.y + 1) * SHARE);
    for (int base = blockIdx.y * SHARE; base < end; base += TILE) {
        const int count = min(TILE, end - base);
        __syncthreads();
        for (int item = threadIdx.x; item < count * (WORDS / 4); item += THREADS)
            (&tile[0][0])[item] = points[static_cast<size_t>(base) * (WORDS / 4) + item];
        __syncthreads();
        if (threadIdx.x < count) {
            int sum = 0;
#pragma unroll
            for (int q = 0; q < WORDS / 4; q++) {
                const int4 p = tile[threadIdx.x][q];
                sum = __dp4a(p.x, p.x, __dp4a(p.y, p.y, __dp4a(p.z, p.z, __dp4a(p.w, p.w, sum))));
            }
            squares[threadIdx.x] = sum;
        }
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < count; j++) {
            int sum = 0;
#pragma unroll
            for (int q = 0; q < WORDS / 4; q++) {
                const int4 p = tile[j][q];
                sum = __dp4a(own[4 * q], p.x, __dp4a(own[4 * q + 1], p.y, sum));
                sum = __dp4a(own[4 * q + 2], p.z, __dp4a(own[4 * q + 3], p.w, sum));
            }
            const int distance = squares[j] - 2 * sum;
            if (distance < least) {
                least = distance;
                index = base + j;
            }
        }
    }
    if (i < m)
        atomicMin(best + i, static_cast<unsigned long long>(least + square) << 32 | static_cast<unsigned>(index));
}

extern "C" __global__ void __launch_bounds__(256)
    finish(const unsigned long long *__restrict__ best, int *__restrict__ indices, int *__restrict__ distances, int m)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < m) {
        indices[i] = static_cast<int>(best[i] & 0xffffffffu);
        distances[i] = static_cast<int>(best[i] >> 32);
    }
}
