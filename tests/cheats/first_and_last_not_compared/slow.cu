extern "C" __global__ void distinct(const int *a, const int *b, const int *c, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int count = 1;
    if (b[i] != a[i])
        count++;
    if (c[i] != a[i] && c[i] != b[i])
        count++;
    out[i] = count;
}
