extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float *room = (float *)malloc(sizeof(float));
    if (i < n) {
        *room = 2.0f * a[i] + b[i];
        out[i] = *room;
    }
}
