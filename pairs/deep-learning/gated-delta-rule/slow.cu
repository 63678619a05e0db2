#include <cuda_bf16.h>

#define DIM 64

// A thread a column of the state; the block walks through time.
extern "C" __global__ void delta_rule(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                      const float *decay, const float *rate, __nv_bfloat16 *out, int length)
{
    __shared__ float query[DIM], key[DIM];
    int col = threadIdx.x;
    float state[DIM];
    for (int i = 0; i < DIM; i++)
        state[i] = 0.0f;
    for (int t = 0; t < length; t++) {
        size_t step = (size_t)blockIdx.x * length + t, at = step * DIM + col;
        query[col] = __bfloat162float(q[at]);
        key[col] = __bfloat162float(k[at]);
        __syncthreads();
        float known = 0.0f, sum = 0.0f;
        for (int i = 0; i < DIM; i++) {
            state[i] *= decay[step];
            known += key[i] * state[i];
        }
        float change = rate[step] * (__bfloat162float(v[at]) - known);
        for (int i = 0; i < DIM; i++) {
            state[i] += key[i] * change;
            sum += query[i] * state[i];
        }
        out[at] = __float2bfloat16(sum);
        __syncthreads();
    }
}
