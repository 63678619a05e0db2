extern "C" __global__ void start(const int *keys, const int *values, int *sums, int *heads, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sums[i] = values[i];
        heads[i] = i == 0 || keys[i] != keys[i - 1];
    }
}

extern "C" __global__ void add_from_left(const int *sums, const int *heads, int *next_sums, int *next_heads, int n,
                                         int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int sum = sums[i], head = heads[i];
    if (!head && i >= distance) {
        sum += sums[i - distance];
        head = heads[i - distance];
    }
    next_sums[i] = sum;
    next_heads[i] = head;
}
