#include <cuda_bf16.h>

#define THREADS 256
#define BEYOND 3.4e38f

extern "C" __global__ void sample(const __nv_bfloat16 *logits, const float *uniform, int *token, int vocab,
                                  float inverse)
{
    __shared__ float best[THREADS];
    __shared__ int place[THREADS];
    int tid = threadIdx.x;
    size_t first = (size_t)blockIdx.x * vocab;
    float top = -BEYOND;
    int at = 0;
    for (int i = tid; i < vocab; i += THREADS) {
        float score = __bfloat162float(logits[first + i]) * inverse - logf(-logf(uniform[first + i]));
        if (score > top) {
            top = score;
            at = i;
        }
    }
    best[tid] = top;
    place[tid] = at;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride &&
            (best[tid + stride] > best[tid] || (best[tid + stride] == best[tid] && place[tid + stride] < place[tid]))) {
            best[tid] = best[tid + stride];
            place[tid] = place[tid + stride];
        }
        __syncthreads();
    }
    if (tid == 0)
        token[blockIdx.x] = place[0];
}
