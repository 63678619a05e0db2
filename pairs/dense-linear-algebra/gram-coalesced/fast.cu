#define WIDTH 32
#define WARPS 32

// A block for each row of G: a lane has one of its elements, the warps share the rows of A.
extern "C" __global__ void gram(const float *a, float *g, int n)
{
    __shared__ float part[WARPS][WIDTH];
    int i = blockIdx.x;
    int j = threadIdx.x % WIDTH, warp = threadIdx.x / WIDTH;
    float sum = 0.0f;
    for (int row = warp; row < n; row += WARPS)
        sum += a[row * WIDTH + i] * a[row * WIDTH + j];
    part[warp][j] = sum;
    __syncthreads();
    for (int stride = WARPS / 2; stride > 0; stride /= 2) {
        if (warp < stride)
            part[warp][j] += part[warp + stride][j];
        __syncthreads();
    }
    if (warp == 0)
        g[i * WIDTH + j] = part[0][j];
}
