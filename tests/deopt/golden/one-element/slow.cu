#define THREADS 256

extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int pairs = n / 2, stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < pairs) {
        float sum = x[2 * i];
        sum += x[2 * i + 1];
        y[i] = fmaxf(sum, 0.0f);
    }
}
