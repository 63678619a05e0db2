#define SCALE 2.0f
#define DO(unroll) _Pragma(unroll)
DO("push_macro(\"SCALE\")")
#undef SCALE
#define SCALE 1.0f
DO("pop_macro(\"SCALE\")")
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = a[i] + SCALE * b[i];
}
