#define WIDTH 32

extern "C" __global__ void batched_gemm(const float *a, const float *b, float *c)
{
    int col = threadIdx.x;
    int row = threadIdx.y;
    size_t base = (size_t)blockIdx.x * WIDTH * WIDTH;
    float sum = 0.0f;
    for (int i = 0; i < WIDTH; i++)
        sum += a[base + row * WIDTH + i] * b[base + i * WIDTH + col];
    c[base + row * WIDTH + col] = sum;
}
