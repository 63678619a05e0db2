extern "C" __global__ void combine(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int quotient = 0, rest = b[i];
    while (rest >= 1000) {
        rest -= 1000;
        quotient++;
    }
    out[i] = a[i] + quotient;
}
