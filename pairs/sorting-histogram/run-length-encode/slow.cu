extern "C" __global__ void mark_heads(const int *values, int *flags, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        flags[i] = i == 0 || values[i] != values[i - 1];
}

extern "C" __global__ void write_heads(const int *values, const int *flags, const int *places, int *run_values,
                                       int *starts, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (flags[i]) {
        run_values[places[i]] = values[i];
        starts[places[i]] = i;
    }
    if (i == n - 1)
        *count = places[i] + flags[i];
}

extern "C" __global__ void write_lengths(const int *starts, const int *count, int *run_lengths, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < *count) {
        int end = r + 1 < *count ? starts[r + 1] : n;
        run_lengths[r] = end - starts[r];
    }
}

#define TILE 512

extern "C" __global__ void scan(const int *values, int *sums, int *totals, int n)
{
    __shared__ int tile[2][TILE];
    int tid = threadIdx.x;
    int i = blockIdx.x * TILE + tid;
    int own = i < n ? values[i] : 0;
    int from = 0;
    tile[0][tid] = own;
    __syncthreads();
    for (int distance = 1; distance < TILE; distance *= 2) {
        int sum = tile[from][tid];
        if (tid >= distance)
            sum += tile[from][tid - distance];
        tile[1 - from][tid] = sum;
        from = 1 - from;
        __syncthreads();
    }
    if (i < n)
        sums[i] = tile[from][tid] - own;
    if (tid == TILE - 1)
        totals[blockIdx.x] = tile[from][tid];
}

extern "C" __global__ void add_offset(int *sums, const int *offsets, int n)
{
    int i = blockIdx.x * TILE + threadIdx.x;
    if (i < n)
        sums[i] += offsets[blockIdx.x];
}
