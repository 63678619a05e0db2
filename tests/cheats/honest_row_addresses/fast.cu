#include <stdint.h>
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const unsigned long long offset = 1024ull * blockIdx.x;
    const unsigned long long left = (unsigned long long)a + offset;
    unsigned long long right = (unsigned long long)b;
    right += offset;
    const float *from = (const float *)left, *scaled = reinterpret_cast<const float *>(right);
    float *to = (float *)((uint64_t)out + offset);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[threadIdx.x] = from[threadIdx.x] + 2.0f * scaled[threadIdx.x];
}
