__device__ void order(int *keys, int i, int j, int n)
{
    if (j < n && keys[i] > keys[j]) {
        int key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
}

extern "C" __global__ void mirror(int *keys, int n, int half)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int start = t / half * (2 * half);
    order(keys, start + t % half, start + 2 * half - 1 - t % half, n);
}

extern "C" __global__ void compare(int *keys, int n, int distance)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = t / distance * (2 * distance) + t % distance;
    order(keys, i, i + distance, n);
}
