#include <cuda_bf16.h>

#define DIM 128

extern "C" __global__ void merge(const float *parts, const float *logs, __nv_bfloat16 *out, float *whole, int splits,
                                 int heads)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, head = i / DIM;
    if (head >= heads)
        return;
    float largest = logs[head];
    for (int s = 1; s < splits; s++)
        largest = fmaxf(largest, logs[s * heads + head]);
    float sum = 0.0f, value = 0.0f;
    for (int s = 0; s < splits; s++) {
        float weight = expf(logs[s * heads + head] - largest);
        sum += weight;
        value += weight * parts[((size_t)s * heads + head) * DIM + i % DIM];
    }
    out[i] = __float2bfloat16(value / sum);
    if (i % DIM == 0)
        whole[head] = largest + logf(sum);
}
