extern "C" __global__ void scan(const int *x, int *sums, int n)
{
    __shared__ int of_thread[32];
    const int each = (n + 31) / 32, first = threadIdx.x * each;
    int sum = 0;
    for (int i = first; i < min(first + each, n); i++)
        sum += x[i];
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (int t = 0; t < threadIdx.x; t++)
        sum += of_thread[t];
    for (int i = first; i < min(first + each, n); i++) {
        sum += x[i];
        sums[i] = sum;
    }
}
