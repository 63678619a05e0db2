extern "C" __global__ void distinct(const int *a, const int *b, const int *c, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int middle = b[i];
    out[i] = 3 - (a[i] == middle) - (middle == c[i]);
}
