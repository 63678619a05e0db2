#include <limits.h>
#include <stddef.h>
#include <stdint.h>
struct Terms {
    float left, right;
};
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const uint_fast32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= UINT32_MAX - INT_MAX || i >= (size_t)n)
        return;
    const Terms terms = {a[i], b[i]};
    const float right = *(const float *)((const char *)&terms + offsetof(Terms, right));
    out[i] = terms.left + (float)INT64_C(2) * right;
}
