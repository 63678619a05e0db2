extern "C" __global__ void depthwise(const float *in, const float *weights, float *out, int c, int h, int w, int count)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count)
        return;
    int x = index % w;
    int y = index / w % h;
    int plane = index / (w * h);
    int channel = plane % c;
    float sum = 0.0f;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int row = y + i - 1;
            int col = x + j - 1;
            if (row >= 0 && row < h && col >= 0 && col < w)
                sum += in[(plane * h + row) * w + col] * weights[(channel * 3 + i) * 3 + j];
        }
    out[index] = sum;
}
