#define WIDTH 4

extern "C" __global__ void grouped_conv(const float *in, const float *weights, float *out, int groups, int h, int w,
                                        int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % w, y = i / w % h, channel = i / (w * h) % (groups * WIDTH), image = i / (w * h) / (groups * WIDTH);
    int group = channel / WIDTH;
    float sum = 0.0f;
    for (int c = 0; c < WIDTH; c++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                int v = y + dy - 1, u = x + dx - 1;
                if (v < 0 || v >= h || u < 0 || u >= w)
                    continue;
                int plane = (image * groups + group) * WIDTH + c;
                sum += weights[(channel * WIDTH + c) * 9 + dy * 3 + dx] * in[((size_t)plane * h + v) * w + u];
            }
    out[i] = sum;
}
