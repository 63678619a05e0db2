extern "C" __global__ void combine(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned first = a[i], second = b[i], product = a[i] ^ b[i];
    for (int bit = 0; bit < 32; bit++) {
        if (second & 1u)
            product += first;
        first <<= 1;
        second >>= 1;
    }
    out[i] = product;
}
