#define THREADS 256

extern "C" __global__ void softmax(const float *in, float *out, int rows, int cols)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const float *from = in + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols;

    float largest = from[0];
    for (int i = tid; i < cols; i += THREADS)
        largest = fmaxf(largest, from[i]);
    part[tid] = largest;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        float value = expf(from[i] - largest);
        to[i] = value;
        sum += value;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    sum = part[0];
    for (int i = tid; i < cols; i += THREADS)
        to[i] = to[i] / sum;
}
