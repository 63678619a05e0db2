#define THREADS 256

extern "C" __global__ void row_max(const float *logits, float *largest, int vocab)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const float *row = logits + blockIdx.x * vocab;
    float value = row[0];
    for (int i = tid; i < vocab; i += THREADS)
        value = fmaxf(value, row[i]);
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    if (tid == 0)
        largest[blockIdx.x] = part[0];
}

extern "C" __global__ void row_sum(const float *logits, const float *largest, float *sums, int vocab)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const float *row = logits + blockIdx.x * vocab;
    float sum = 0.0f;
    for (int i = tid; i < vocab; i += THREADS)
        sum += expf(row[i] - largest[blockIdx.x]);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        sums[blockIdx.x] = part[0];
}

extern "C" __global__ void pick(const float *logits, const int *labels, const float *largest, const float *sums,
                                float *loss, int rows, int vocab)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        loss[row] = logf(sums[row]) + largest[row] - logits[row * vocab + labels[row]];
}
