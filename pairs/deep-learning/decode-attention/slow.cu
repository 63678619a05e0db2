#define DIM 128

extern "C" __global__ void decode(const float *q, const float *k, const float *v, float *out, int n, float scale)
{
    extern __shared__ float scores[];
    __shared__ float query[DIM];
    __shared__ float part[DIM];
    int tid = threadIdx.x;
    const float *keys = k + (size_t)blockIdx.x * n * DIM;
    const float *values = v + (size_t)blockIdx.x * n * DIM;
    query[tid] = q[blockIdx.x * DIM + tid];
    __syncthreads();

    float largest = -3.0e38f;
    for (int j = tid; j < n; j += DIM) {
        float sum = 0.0f;
        for (int d = 0; d < DIM; d++)
            sum += query[d] * keys[(size_t)j * DIM + d];
        scores[j] = sum * scale;
        largest = fmaxf(largest, scores[j]);
    }
    part[tid] = largest;
    __syncthreads();
    for (int stride = DIM / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();

    float sum = 0.0f;
    for (int j = tid; j < n; j += DIM) {
        scores[j] = expf(scores[j] - largest);
        sum += scores[j];
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = DIM / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }

    float result = 0.0f;
    for (int j = 0; j < n; j++)
        result += scores[j] * values[(size_t)j * DIM + tid];
    out[blockIdx.x * DIM + tid] = result / part[0];
}
