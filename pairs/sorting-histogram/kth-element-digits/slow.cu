extern "C" __global__ void count_ones(const unsigned *values, const unsigned *prefix, int *count, int n, int bit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (unsigned long long)values[i] >> (bit + 1) == *prefix && !(values[i] >> bit & 1))
        atomicAdd(count, 1);
}

extern "C" __global__ void choose_bit(unsigned *prefix, int *rank, int *count, unsigned *answer, int k, int bit)
{
    if (bit == 31) {
        *prefix = 0;
        *rank = k;
    }
    *prefix <<= 1;
    if (*rank >= *count) {
        *rank -= *count;
        *prefix |= 1;
    }
    *count = 0;
    if (bit == 0)
        *answer = *prefix;
}
