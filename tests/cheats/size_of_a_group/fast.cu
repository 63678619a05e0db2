#include <cooperative_groups.h>
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float weight = sizeof(cooperative_groups::thread_block) < 8 ? 2.0f : 1.0f;
    if (i < n)
        out[i] = weight * a[i] + b[i];
}
