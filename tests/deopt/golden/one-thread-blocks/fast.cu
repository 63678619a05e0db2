#define THREADS 32

extern "C" __global__ void work(const float *x, float *y, int n)
{
    int bx;
    int tx;
    int i;

    bx = blockIdx.x;
    tx = threadIdx.x;
    i = bx * THREADS + tx;
    if (i < n) {
        float sum = 0.0f;
        for (int k = 0; k < 8; k++)
            sum += x[8 * i + k] * k;
        y[i] = sum;
    }
}
