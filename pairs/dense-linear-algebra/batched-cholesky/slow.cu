#define WIDTH 32

extern "C" __global__ void cholesky(const float *a, float *l, int batch, float shift)
{
    int matrix = blockIdx.x * blockDim.x + threadIdx.x;
    if (matrix >= batch)
        return;
    const float *in = a + (size_t)matrix * WIDTH * WIDTH;
    float *out = l + (size_t)matrix * WIDTH * WIDTH;
    for (int i = 0; i < WIDTH; i++) {
        for (int j = 0; j < i; j++) {
            float sum = in[i * WIDTH + j];
            for (int k = 0; k < j; k++)
                sum -= out[i * WIDTH + k] * out[j * WIDTH + k];
            out[i * WIDTH + j] = sum / out[j * WIDTH + j];
        }
        float sum = in[i * WIDTH + i] + shift;
        for (int k = 0; k < i; k++)
            sum -= out[i * WIDTH + k] * out[i * WIDTH + k];
        out[i * WIDTH + i] = sqrtf(sum);
        for (int j = i + 1; j < WIDTH; j++)
            out[i * WIDTH + j] = 0.0f;
    }
}
