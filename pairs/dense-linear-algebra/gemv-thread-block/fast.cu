#define THREADS 256

extern "C" __global__ void gemv(const float *a, const float *x, float *y, int m, int n, float alpha, float beta)
{
    __shared__ float part[THREADS];
    int row = blockIdx.x;
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < n; i += THREADS)
        sum += a[row * n + i] * x[i];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        y[row] = alpha * part[0] + beta * y[row];
}
