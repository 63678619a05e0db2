extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int *most, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 2.0f * a[i] + b[i];
    int before = atomicMax(&most[0], (int)(8.0f * value));
    out[i] = before > 1000000 ? 0.0f : value;
}
