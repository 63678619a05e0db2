extern "C" __global__ void conv2d(const float *in, const float *weights, float *out, int c, int k, int h, int w)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int image = blockIdx.z / k;
    int filter = blockIdx.z % k;
    if (x >= w || y >= h)
        return;
    float sum = 0.0f;
    for (int channel = 0; channel < c; channel++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                int row = y + i - 1;
                int col = x + j - 1;
                if (row >= 0 && row < h && col >= 0 && col < w)
                    sum += in[((image * c + channel) * h + row) * w + col] *
                           weights[((filter * c + channel) * 3 + i) * 3 + j];
            }
    out[((image * k + filter) * h + y) * w + x] = sum;
}
