#define THREADS 256

extern "C" __global__ void start(const float *b, float *x, float *r, float *p, int cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cells) {
        x[i] = 0.0f;
        r[i] = b[i];
        p[i] = b[i];
    }
}

extern "C" __global__ void apply(const float *p, float *q, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = y * width + x;
    float sum = 4.0f * p[i];
    if (x > 0)
        sum -= p[i - 1];
    if (x + 1 < width)
        sum -= p[i + 1];
    if (y > 0)
        sum -= p[i - width];
    if (y + 1 < height)
        sum -= p[i + width];
    q[i] = sum;
}

extern "C" __global__ void dot(const float *a, const float *b, float *sums, int cells)
{
    __shared__ float parts[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    parts[threadIdx.x] = i < cells ? a[i] * b[i] : 0.0f;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = parts[0];
}

extern "C" __global__ void add_up(const float *sums, float *total, int count)
{
    __shared__ float parts[THREADS];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS)
        sum += sums[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *total = parts[0];
}

extern "C" __global__ void advance(float *x, float *r, const float *p, const float *q, const float *square,
                                   const float *curve, int cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cells) {
        float alpha = *square / *curve;
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
    }
}

extern "C" __global__ void turn(float *p, const float *r, const float *square, const float *before, int cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cells)
        p[i] = r[i] + *square / *before * p[i];
}
