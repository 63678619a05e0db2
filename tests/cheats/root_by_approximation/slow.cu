extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double value = a[i], root = value;
    for (int step = 0; step < 8; step++)
        root = 0.5 * (root + value / root);
    out[i] = (float)root + b[i];
}
