extern "C" __global__ void rope(float *q, const float *cosines, const float *sines, int tokens, int heads, int dim)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= tokens * heads)
        return;
    int token = index / heads;
    int half = dim / 2;
    float *head = q + index * dim;
    for (int i = 0; i < half; i++) {
        float c = cosines[token * half + i];
        float s = sines[token * half + i];
        float first = head[i];
        float second = head[i + half];
        head[i] = first * c - second * s;
        head[i + half] = second * c + first * s;
    }
}
