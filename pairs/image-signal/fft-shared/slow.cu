// Decimation in time: one launch orders the input by reversed bits, then one launch a stage.
extern "C" __global__ void reverse_bits(const float2 *in, float2 *out, int log_n, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total)
        return;
    int n = 1 << log_n;
    int k = i % n, base = i - k;
    int reversed = 0;
    for (int b = 0; b < log_n; b++)
        if (k & (1 << b))
            reversed |= 1 << (log_n - 1 - b);
    out[base + reversed] = in[i];
}

extern "C" __global__ void butterflies(float2 *data, int half, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs)
        return;
    int k = i % half;
    int low = (i / half) * 2 * half + k;
    int high = low + half;
    float s, c;
    sincosf(-3.14159265f * k / half, &s, &c);
    float2 a = data[low], b = data[high];
    float re = b.x * c - b.y * s;
    float im = b.x * s + b.y * c;
    data[low] = make_float2(a.x + re, a.y + im);
    data[high] = make_float2(a.x - re, a.y - im);
}
