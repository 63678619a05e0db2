#define THREADS 512
#define CELLS 16
#define MOST (THREADS * CELLS)

extern "C" __global__ void __launch_bounds__(THREADS)
    pack(const int *__restrict__ weights, const int *__restrict__ worths, int *__restrict__ best, int items,
         int capacity)
{
    __shared__ int table[MOST];
    const int sack = blockIdx.x;
    int value[CELLS];
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        value[c] = 0;
        table[c * THREADS + threadIdx.x] = 0;
    }
    __syncthreads();
    int weight = weights[sack * items], worth = worths[sack * items];
    for (int item = 0; item < items; item++) {
        const int ahead = min(item + 1, items - 1);
        const int next_weight = weights[sack * items + ahead], next_worth = worths[sack * items + ahead];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            const int room = c * THREADS + threadIdx.x;
            if (room >= weight)
                value[c] = max(value[c], table[room - weight] + worth);
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            table[c * THREADS + threadIdx.x] = value[c];
        __syncthreads();
        weight = next_weight;
        worth = next_worth;
    }
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        const int room = c * THREADS + threadIdx.x;
        if (room <= capacity)
            best[static_cast<size_t>(sack) * (capacity + 1) + room] = value[c];
    }
}
