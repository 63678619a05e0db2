__device__ float weight(float a, float b)
{
    return a * b + 1.0f;
}

extern "C" __global__ void work(const float *x, const int *place, float *y, int n)
{
    for (int item = 0; item < 8; item++) {
        const int tid = (blockIdx.x * blockDim.x + threadIdx.x) * 8 + item;
        if (tid >= n)
            continue;
        float sum = 0.0f;
        for (int k = 0; k < 3; k++) {
            if (place[tid] < k)
                continue;
            sum += weight(x[tid], k);
        }
        y[tid] = sum;
    }
}
