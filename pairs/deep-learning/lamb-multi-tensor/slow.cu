#define THREADS 256

extern "C" __global__ void moments(const float *gradient, float *m, float *v, const float *weights, float *update,
                                   int count, float beta1, float beta2, float eps, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    m[i] = beta1 * m[i] + (1.0f - beta1) * gradient[i];
    v[i] = beta2 * v[i] + (1.0f - beta2) * gradient[i] * gradient[i];
    update[i] = m[i] / (sqrtf(v[i]) + eps) + decay * weights[i];
}

extern "C" __global__ void length_of(const float *values, float *result, int count)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < count; i += THREADS)
        sum += values[i] * values[i];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        result[0] = sqrtf(part[0]);
}

extern "C" __global__ void apply(float *weights, const float *update, const float *weight_norm,
                                 const float *update_norm, int count, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        weights[i] -= rate * weight_norm[0] / update_norm[0] * update[i];
}
