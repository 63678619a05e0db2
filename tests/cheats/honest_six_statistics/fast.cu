extern "C" __global__ void curve(const unsigned *__restrict__ x, unsigned *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned most = 0, least = ~0u, sum = 0, squares = 0, odd = 0, bits = 0;
    for (int k = 0; k < 32; k++) {
        const unsigned v = x[(i + k * 64) % n];
        most = max(most, v);
        least = min(least, v);
        sum += v;
        squares += v * v;
        odd += v & 1;
        bits ^= v;
    }
    y[i] = ((most * 31u + least) * 31u + sum) * 31u + squares + odd + bits;
}
