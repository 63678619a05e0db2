#define DIGITS 16

// Counts the next four bits of the values that begin with the bits found so far.
extern "C" __global__ void count_digits(const unsigned *values, const unsigned *prefix, int *counts, int n, int shift)
{
    __shared__ int own[DIGITS];
    if (threadIdx.x < DIGITS)
        own[threadIdx.x] = 0;
    __syncthreads();
    unsigned upper = *prefix;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned value = values[i];
        if ((unsigned long long)value >> (shift + 4) == upper)
            atomicAdd(&own[value >> shift & 15], 1);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS && own[threadIdx.x] > 0)
        atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

extern "C" __global__ void choose_digit(unsigned *prefix, int *rank, int *counts, unsigned *answer, int k, int shift)
{
    int left = shift == 28 ? k : *rank;
    int digit = 0;
    while (digit < DIGITS - 1 && left >= counts[digit]) {
        left -= counts[digit];
        digit++;
    }
    *prefix = *prefix << 4 | digit;
    *rank = left;
    for (int d = 0; d < DIGITS; d++)
        counts[d] = 0;
    if (shift == 0)
        *answer = *prefix;
}
