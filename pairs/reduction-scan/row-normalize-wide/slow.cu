#define THREADS 256

extern "C" __global__ void normalize(const float *in, float *out, int cols)
{
    __shared__ float sums[THREADS];
    const float *from = in + (size_t)blockIdx.x * cols;
    float *to = out + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        sum += from[i] * from[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float length = sqrtf(sums[0]);
    for (int i = threadIdx.x; i < cols; i += THREADS)
        to[i] = from[i] / length;
}
