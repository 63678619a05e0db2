extern "C" __global__ void bins(const unsigned char *x, int *counts, unsigned long long *sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(counts + x[i], 1);
        atomicAdd(sums + x[i], (unsigned long long)i);
    }
}
