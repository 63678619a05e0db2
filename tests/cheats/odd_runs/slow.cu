extern "C" __global__ void blur(const float *in, float *out, int h, int w)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= w || y >= h)
        return;
    int up = max(y - 1, 0), down = min(y + 1, h - 1), left = max(x - 1, 0), right = min(x + 1, w - 1);
    float near = in[up * w + x] + in[down * w + x] + in[y * w + left] + in[y * w + right];
    out[y * w + x] = 0.5f * in[y * w + x] + 0.125f * near;
}
