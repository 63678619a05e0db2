extern "C" __global__ void mark_heads(const int *keys, int *flags, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        flags[i] = i == 0 || keys[i] != keys[i - 1];
}

extern "C" __global__ void add_values(const int *keys, const int *values, const int *flags, const int *places,
                                      int *group_keys, int *sums, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int group = places[i] + flags[i] - 1;
    if (flags[i])
        group_keys[group] = keys[i];
    atomicAdd(&sums[group], values[i]);
    if (i == n - 1)
        *count = group + 1;
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
