__device__ void order(int *keys, int i, int j, int n)
{
    if (j < n && keys[i] > keys[j]) {
        int key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
}

extern "C" __global__ void mirror(int *keys, int n, int span)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int start = t / span * (2 * span);
    order(keys, start + t % span, start + 2 * span - 1 - t % span, n);
}

extern "C" __global__ void compare(int *keys, int n, int distance)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = t / distance * (2 * distance) + t % distance;
    order(keys, i, i + distance, n);
}
