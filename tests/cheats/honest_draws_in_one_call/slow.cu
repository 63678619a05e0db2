extern "C" __global__ void curve(const unsigned *x, unsigned *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned state = x[i];
    for (int k = 0; k < 24; k++) {
        state = state * 1664525u + 1013904223u;
        const unsigned first = state >> 8;
        state = state * 1664525u + 1013904223u;
        const unsigned second = state >> 8;
        state ^= first * 31u + second;
    }
    y[i] = state;
}
