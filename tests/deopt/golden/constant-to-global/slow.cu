__device__ float taps[8];
__device__ const int signs[2] = {1, -1};

extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < 8; k++)
        sum += taps[k] * x[i + k] * signs[k % 2];
    y[i] = sum;
}
