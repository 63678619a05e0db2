#define SCALE(x) \
    (2.0f * \
     (x))
__device__ const int most = 1'000'000'000;
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n and not(i > most))
        out[i] = SCALE(a[i]) + b[i];
}
