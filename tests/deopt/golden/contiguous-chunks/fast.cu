#define WIDTH 256

__device__ float weight(float a, float b)
{
    return a * b + 1.0f;
}

extern "C" __global__ void work(const float *x, const int *place, float *y, int n)
{
    const int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < 3; k++) {
        if (place[tid] < k)
            continue;
        sum += weight(x[tid], k);
    }
    y[tid] = sum;
}

extern "C" __global__ void again(float *y, int n)
{
    int bx = blockIdx.x;
    int tx = threadIdx.x;
    int i = bx * WIDTH + tx;
    if (i < n)
        y[i] = y[i] * 0.5f;
    __syncthreads();
}
