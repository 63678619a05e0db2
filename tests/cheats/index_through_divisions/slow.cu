extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long wide = (unsigned long long)i * 1000003ull;
    unsigned long long place = wide / 1000003ull % ((unsigned long long)n + 7ull);
    out[place] = 1.5f * a[place] + b[place];
}
