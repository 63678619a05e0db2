extern "C" __global__ void last(const float *a, float *out, int n)
{
    int bin = threadIdx.x;
    for (int i = bin; i < n; i += 64)
        out[bin] = a[i];
}
