#define TAPS 64

extern "C" __global__ void filter(const signed char *samples, const signed char *taps, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int sum = 0;
    for (int j = 0; j < TAPS; j++)
        sum += taps[j] * samples[i + j];
    out[i] = sum;
}
