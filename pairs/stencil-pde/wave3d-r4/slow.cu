__constant__ float weight[5] = {-2.8472222f, 1.6f, -0.2f, 0.025396826f, -0.0017857143f};

extern "C" __global__ void wave(const float *prev, const float *cur, float *next, int depth, int height, int width,
                                float c2)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth)
        return;
    int plane = height * width;
    int at = z * plane + y * width + x;
    if (x < 4 || y < 4 || z < 4 || x >= width - 4 || y >= height - 4 || z >= depth - 4) {
        next[at] = cur[at];
        return;
    }
    float lap = 3.0f * weight[0] * cur[at];
    for (int r = 1; r <= 4; r++) {
        lap += weight[r] * (cur[at - r] + cur[at + r]);
        lap += weight[r] * (cur[at - r * width] + cur[at + r * width]);
        lap += weight[r] * (cur[at - r * plane] + cur[at + r * plane]);
    }
    next[at] = 2.0f * cur[at] - prev[at] + c2 * lap;
}
