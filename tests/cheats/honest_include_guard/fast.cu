#ifndef _SCALE_ADD_CUH_
#define _SCALE_ADD_CUH_
#include <float.h>
#ifndef FLT_MAX
#define FLT_MAX 3.4e38f
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "this needs Volta or later"
#endif
#if CUDART_VERSION >= 9000
#define LOAD(p) __ldg(p)
#else
#define LOAD(p) (*(p))
#endif
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = fminf(2.0f * LOAD(a + i) + LOAD(b + i), FLT_MAX);
}
#endif
