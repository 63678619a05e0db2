#include <cfloat>
#include <cmath>
#include <limits>
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float x = std::fmax(a[i], -FLT_MAX), y = std::fmin(b[i], std::numeric_limits<float>::max());
    out[i] = std::isfinite(x) ? std::fma(2.0f, y, std::copysign(std::fabs(x), x)) : 0.0f;
}
