#define AHEAD 8
#define FULL 0xffffffffu

// One warp per row, 32 pixels at a time.
extern "C" __global__ void __launch_bounds__(128)
    scan_rows(const unsigned char *__restrict__ image, int *__restrict__ sums, int height, int width)
{
    const int y = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (y >= height)
        return;
    int before = 0;
    for (int first = 0; first < width; first += 32) {
        const size_t at = static_cast<size_t>(y) * width + first + lane;
        int upto = first + lane < width ? image[at] : 0;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int other = __shfl_up_sync(FULL, upto, distance);
            if (lane >= distance)
                upto += other;
        }
        if (first + lane < width)
            sums[at] = before + upto;
        before += __shfl_sync(FULL, upto, 31);
    }
}

extern "C" __global__ void __launch_bounds__(64) scan_columns(int *__restrict__ sums, int height, int width)
{
    const int x = blockIdx.x * 64 + threadIdx.x;
    if (x >= width)
        return;
    int sum = 0;
    for (int first = 0; first < height; first += AHEAD) {
        int *own = sums + static_cast<size_t>(first) * width + x;
        int value[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            value[s] = first + s < height ? own[static_cast<size_t>(s) * width] : 0;
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            sum += value[s];
            if (first + s < height)
                own[static_cast<size_t>(s) * width] = sum;
        }
    }
}
