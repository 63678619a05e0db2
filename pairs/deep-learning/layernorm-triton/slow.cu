#define THREADS 256

extern "C" __global__ void layernorm(const float *in, const float *weight, const float *bias, float *out, int rows,
                                     int cols, float eps)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const float *from = in + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols;

    float sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS)
        sum += from[i];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float mean = part[0] / cols;
    __syncthreads();

    sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        float difference = from[i] - mean;
        sum += difference * difference;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float deviation = sqrtf(part[0] / cols + eps);
    for (int i = tid; i < cols; i += THREADS)
        to[i] = (from[i] - mean) / deviation * weight[i] + bias[i];
}
