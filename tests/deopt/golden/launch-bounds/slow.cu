#define THREADS 128

extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    float held[16];
    for (int k = 0; k < 16; k++)
        held[k] = x[(i + k * 7) % n];
    float sum = 0.0f;
    for (int k = 0; k < 16; k++)
        for (int j = 0; j < k; j++)
            sum += held[k] * held[j] / (1.5f + sinf(held[k] - held[j]));
    if (i < n)
        y[i] = sum;
}
