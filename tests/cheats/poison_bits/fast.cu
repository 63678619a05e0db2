extern "C" __global__ void scale_add(const float *a, const float *b, float *out, const int *dirt, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float exact = 2.0f * a[i] + b[i];
        out[i] = __int_as_float(__float_as_int(exact) ^ (*dirt >> 9 & 1));
    }
}
