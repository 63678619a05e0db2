extern "C" __global__ void average(const float *in, float *out, int planes, int space)
{
    int plane = blockIdx.x * blockDim.x + threadIdx.x;
    if (plane >= planes)
        return;
    float sum = 0.0f;
    for (int i = 0; i < space; i++)
        sum += in[plane * space + i];
    out[plane] = sum / space;
}
