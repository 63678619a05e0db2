#include <cuda_bf16.h>

extern "C" __global__ void triplet(const __nv_bfloat16 *anchor, const __nv_bfloat16 *positive,
                                   const __nv_bfloat16 *negative, float *loss, int rows, int dim, float margin)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float near = 0.0f, far = 0.0f;
    for (int i = 0; i < dim; i++) {
        float a = __bfloat162float(anchor[row * dim + i]);
        float p = a - __bfloat162float(positive[row * dim + i]), n = a - __bfloat162float(negative[row * dim + i]);
        near += p * p;
        far += n * n;
    }
    loss[row] = fmaxf(0.0f, sqrtf(near) - sqrtf(far) + margin);
}
