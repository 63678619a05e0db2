extern "C" __global__ void add(const unsigned *a, const unsigned *b, unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned carry = 0;
    for (int k = 0; k < 8; k++) {
        unsigned long long sum = (unsigned long long)a[i * 8 + k] + b[i * 8 + k] + carry;
        out[i * 8 + k] = (unsigned)sum;
        carry = (unsigned)(sum >> 32);
    }
}
