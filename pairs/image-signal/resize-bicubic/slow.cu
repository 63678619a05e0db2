__device__ float weight(float distance)
{
    float d = fabsf(distance);
    if (d <= 1.0f)
        return (1.5f * d - 2.5f) * d * d + 1.0f;
    if (d < 2.0f)
        return ((-0.5f * d + 2.5f) * d - 4.0f) * d + 2.0f;
    return 0.0f;
}

extern "C" __global__ void resize(const float *image, float *resized, int height, int width, int out_height,
                                  int out_width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= out_width || y >= out_height)
        return;
    int place_x = (2 * x + 1) * width - out_width + 4 * out_width,
        place_y = (2 * y + 1) * height - out_height + 4 * out_height;
    int left = place_x / (2 * out_width) - 2, top = place_y / (2 * out_height) - 2;
    float fx = (float)(place_x % (2 * out_width)) / (2 * out_width);
    float fy = (float)(place_y % (2 * out_height)) / (2 * out_height);
    float sum = 0.0f;
    for (int dy = -1; dy <= 2; dy++) {
        for (int dx = -1; dx <= 2; dx++) {
            int i = min(max(top + dy, 0), height - 1), j = min(max(left + dx, 0), width - 1);
            sum += weight(dy - fy) * weight(dx - fx) * image[(size_t)i * width + j];
        }
    }
    resized[(size_t)y * out_width + x] = sum;
}
