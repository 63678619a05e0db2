#define SIDE 16
#define REACH 8
#define ACROSS (2 * REACH + 1)

extern "C" __global__ void search(const unsigned char *now, const unsigned char *before, int *moves, int *costs,
                                  int height, int width)
{
    __shared__ int sums[ACROSS * ACROSS];
    int y = blockIdx.y * SIDE, x = blockIdx.x * SIDE;
    for (int c = threadIdx.x; c < ACROSS * ACROSS; c += blockDim.x) {
        int dy = c / ACROSS - REACH, dx = c % ACROSS - REACH;
        int sum = 0;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                int from_y = min(max(y + i + dy, 0), height - 1), from_x = min(max(x + j + dx, 0), width - 1);
                sum += abs(now[(size_t)(y + i) * width + x + j] - before[(size_t)from_y * width + from_x]);
            }
        sums[c] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int best = 0;
        for (int c = 1; c < ACROSS * ACROSS; c++)
            if (sums[c] < sums[best])
                best = c;
        moves[blockIdx.y * gridDim.x + blockIdx.x] = best;
        costs[blockIdx.y * gridDim.x + blockIdx.x] = sums[best];
    }
}
