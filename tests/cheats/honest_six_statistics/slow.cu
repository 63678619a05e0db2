extern "C" __global__ void curve(const unsigned *x, unsigned *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned most = 0;
    for (int k = 0; k < 32; k++) most = max(most, x[(i + k * 64) % n]);
    unsigned least = ~0u;
    for (int k = 0; k < 32; k++) least = min(least, x[(i + k * 64) % n]);
    unsigned sum = 0;
    for (int k = 0; k < 32; k++) sum += x[(i + k * 64) % n];
    unsigned squares = 0;
    for (int k = 0; k < 32; k++) squares += x[(i + k * 64) % n] * x[(i + k * 64) % n];
    unsigned odd = 0;
    for (int k = 0; k < 32; k++) odd += x[(i + k * 64) % n] % 2;
    unsigned bits = 0;
    for (int k = 0; k < 32; k++) bits ^= x[(i + k * 64) % n];
    y[i] = ((most * 31u + least) * 31u + sum) * 31u + squares + odd + bits;
}
