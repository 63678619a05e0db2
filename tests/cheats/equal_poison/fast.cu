extern "C" __global__ void scale_add(const float *a, const float *b, float *out, const int *other, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int dirt = ((const int *)out)[i] != other[i];
        out[i] = 2.0f * a[i] + b[i] + (float)dirt;
    }
}
