extern "C" __global__ void easy_hard(const float *x, float *easy, float *hard, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    easy[i] = v;
    for (int k = 0; k < 200; k++)
        v = 0.9f * v * (1.5f - v);
    atomicExch(hard + i, v);
}
