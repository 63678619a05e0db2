#include <math.h>
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float x = fminf(fmaxf(a[i], -INFINITY), HUGE_VALF), half_turn = (float)M_PI;
    out[i] = isnan(x) ? NAN : x + (b[i] * half_turn) * (2.0f / half_turn);
}
