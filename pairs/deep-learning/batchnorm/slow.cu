#define THREADS 256

extern "C" __global__ void statistics(const float *in, float *mean, float *variance, int n, int c, int space)
{
    __shared__ float part[THREADS];
    int channel = blockIdx.x;
    int tid = threadIdx.x;
    int count = n * space;

    float sum = 0.0f;
    for (int i = tid; i < count; i += THREADS)
        sum += in[(i / space * c + channel) * space + i % space];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float middle = part[0] / count;
    __syncthreads();

    sum = 0.0f;
    for (int i = tid; i < count; i += THREADS) {
        float difference = in[(i / space * c + channel) * space + i % space] - middle;
        sum += difference * difference;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0) {
        mean[channel] = middle;
        variance[channel] = part[0] / count;
    }
}

extern "C" __global__ void normalise(const float *in, const float *mean, const float *variance, const float *weight,
                                     const float *bias, float *out, int n, int c, int space, float eps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * c * space)
        return;
    int channel = i / space % c;
    out[i] = (in[i] - mean[channel]) / sqrtf(variance[channel] + eps) * weight[channel] + bias[channel];
}
