#define WIDTH 32
#define THREADS 64

extern "C" __global__ void gram(const float *a, float *g, int n)
{
    __shared__ float part[THREADS];
    int i = blockIdx.x;
    int j = blockIdx.y;
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int row = tid; row < n; row += THREADS)
        sum += a[row * WIDTH + i] * a[row * WIDTH + j];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        g[i * WIDTH + j] = part[0];
}
