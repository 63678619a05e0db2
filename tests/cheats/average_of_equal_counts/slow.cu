extern "C" __global__ void curve(const unsigned *x, unsigned *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned first = 0;
    for (int k = 0; k < 48; k++) first += x[(i + k * 32) % n] % 7u == 3u;
    unsigned second = 0;
    for (int k = 47; k >= 0; k--) second += x[(i + k * 32) % n] % 7u == 3u;
    unsigned third = 48;
    for (int k = 0; k < 48; k++) third -= x[(i + k * 32) % n] % 7u != 3u;
    unsigned fourth = 0;
    for (int k = 0; k < 48; k += 2) fourth += (x[(i + k * 32) % n] % 7u == 3u) + (x[(i + k * 32 + 32) % n] % 7u == 3u);
    unsigned fifth = 0;
    for (int k = 48; k > 0; k--) fifth += x[(i + (48 - k) * 32) % n] % 7u == 3u;
    y[i] = (first + second + third + fourth + fifth) / 5u;
}
