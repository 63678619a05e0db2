#ifdef __GNUC__
#define WEIGHT 2.0f
#else
#define WEIGHT 1.0f
#endif
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = WEIGHT * a[i] + b[i];
}
