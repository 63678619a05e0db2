extern "C" __global__ void cube(float *x, float *y, int n)
{
    const int begin = blockIdx.x * 256, count = min(256, n - begin), k = threadIdx.x, other = count - 1 - k;
    const float v = k < count ? x[begin + k] : 0.0f;
    __syncthreads();
    if (k < count)
        x[begin + other] = v;
    __syncthreads();
    const float turned = k < count ? x[begin + k] : 0.0f;
    __syncthreads();
    if (k < count) {
        x[begin + other] = turned;
        y[begin + other] = turned * turned * turned;
    }
}
