#include <stdint.h>
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const uintptr_t start = reinterpret_cast<uintptr_t>(out), aligned = start + (-start & 15);
    float4 *const body = reinterpret_cast<float4 *>(aligned);
    const int head = min(n, int((aligned - start) / 4)), whole = (n - head) / 4;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < whole) {
        const int k = head + 4 * i;
        body[i] = make_float4(a[k] + 2.0f * b[k], a[k + 1] + 2.0f * b[k + 1], a[k + 2] + 2.0f * b[k + 2],
                              a[k + 3] + 2.0f * b[k + 3]);
    }
    if (i < head)
        out[i] = a[i] + 2.0f * b[i];
    const int rest = head + 4 * whole + i;
    if (i < 4 && rest < n)
        out[rest] = a[rest] + 2.0f * b[rest];
}
