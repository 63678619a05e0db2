extern "C" __global__ void first_of_runs(const unsigned *__restrict__ keys, int *__restrict__ first, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        first[i] = i == 0 || (keys[i] ^ keys[i - 1]) != 0;
}
