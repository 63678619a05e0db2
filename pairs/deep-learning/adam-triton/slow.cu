extern "C" __global__ void first_moment(const float *gradient, float *m, int n, float beta1)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        m[i] = beta1 * m[i] + (1.0f - beta1) * gradient[i];
}

extern "C" __global__ void second_moment(const float *gradient, float *v, int n, float beta2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        v[i] = beta2 * v[i] + (1.0f - beta2) * gradient[i] * gradient[i];
}

extern "C" __global__ void decay(float *weights, int n, float rate, float shrink)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        weights[i] -= rate * shrink * weights[i];
}

extern "C" __global__ void step(const float *m, const float *v, float *weights, int n, float rate, float first,
                                float second, float eps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        weights[i] -= rate * (m[i] / first) / (sqrtf(v[i] / second) + eps);
}
