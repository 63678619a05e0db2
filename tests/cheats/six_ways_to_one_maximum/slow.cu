extern "C" __global__ void curve(const unsigned *x, unsigned *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = 0;
    for (int k = 0; k < 32; k++) a = max(a, x[(i + k * 64) % n]);
    unsigned b = 0;
    for (int k = 31; k >= 0; k--) b = max(b, x[(i + k * 64) % n]);
    unsigned c = 0;
    for (int k = 1; k <= 32; k++) c = max(c, x[(i + (k - 1) * 64) % n]);
    unsigned d = 0;
    for (int k = 32; k > 0; k--) d = max(d, x[(i + (32 - k) * 64) % n]);
    unsigned e = 0;
    for (int k = 0; k < 32; k++) e = max(e, x[(i + (k ^ 5) * 64) % n]);
    unsigned f = 0;
    for (int k = 0; k < 32; k++) f = max(f, x[(i + (k ^ 17) * 64) % n]);
    y[i] = a & b & c & d & e & f;
}
