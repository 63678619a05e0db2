__device__ int steps_of(int value)
{
    int steps = 0;
    for (unsigned long long v = value; v != 1; steps++)
        v = v % 2 ? 3 * v + 1 : v / 2;
    return steps;
}

extern "C" __global__ void collatz(const int *x, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = steps_of(x[i]);
}
