#define THREADS 128

extern "C" __global__ void gemv(const signed char *w, const signed char *x, const float *row_scale, float *y,
                                float x_scale, int n, int k)
{
    __shared__ int parts[THREADS];
    const int row = blockIdx.x;
    int sum = 0;
    for (int i = threadIdx.x; i < k; i += THREADS)
        sum += w[(size_t)row * k + i] * x[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[row] = parts[0] * x_scale * row_scale[row];
}
