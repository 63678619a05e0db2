extern "C" __global__ void first_of_runs(const unsigned *keys, int *first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        first[i] = i == 0 || keys[i] != keys[i - 1];
}
