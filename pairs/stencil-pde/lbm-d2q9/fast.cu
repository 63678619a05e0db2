__device__ __forceinline__ float relaxed(float f, float weight, float rho, float base, float cu, float omega)
{
    return f + omega * (weight * rho * (base + cu * (3.0f + 4.5f * cu)) - f);
}

extern "C" __global__ void __launch_bounds__(256)
    collide_stream(const float *__restrict__ from, float *__restrict__ to, int height, int width, float omega)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y;
    if (x >= width)
        return;
    const size_t plane = (size_t)height * width;
    const int west = x > 0 ? x - 1 : width - 1, east = x + 1 < width ? x + 1 : 0;
    const size_t here = (size_t)y * width;
    const size_t south = (size_t)(y > 0 ? y - 1 : height - 1) * width;
    const size_t north = (size_t)(y + 1 < height ? y + 1 : 0) * width;
    const float f0 = __ldg(from + here + x);
    const float f1 = __ldg(from + plane + here + west);
    const float f2 = __ldg(from + 2 * plane + south + x);
    const float f3 = __ldg(from + 3 * plane + here + east);
    const float f4 = __ldg(from + 4 * plane + north + x);
    const float f5 = __ldg(from + 5 * plane + south + west);
    const float f6 = __ldg(from + 6 * plane + south + east);
    const float f7 = __ldg(from + 7 * plane + north + east);
    const float f8 = __ldg(from + 8 * plane + north + west);
    const float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    const float scale = 1.0f / rho;
    const float ux = scale * (f1 - f3 + f5 - f6 - f7 + f8);
    const float uy = scale * (f2 - f4 + f5 + f6 - f7 - f8);
    const float base = 1.0f - 1.5f * (ux * ux + uy * uy);
    const float w0 = 4.0f / 9, w1 = 1.0f / 9, w2 = 1.0f / 36;
    float *cell = to + here + x;
    cell[0] = relaxed(f0, w0, rho, base, 0.0f, omega);
    cell[plane] = relaxed(f1, w1, rho, base, ux, omega);
    cell[2 * plane] = relaxed(f2, w1, rho, base, uy, omega);
    cell[3 * plane] = relaxed(f3, w1, rho, base, -ux, omega);
    cell[4 * plane] = relaxed(f4, w1, rho, base, -uy, omega);
    cell[5 * plane] = relaxed(f5, w2, rho, base, ux + uy, omega);
    cell[6 * plane] = relaxed(f6, w2, rho, base, uy - ux, omega);
    cell[7 * plane] = relaxed(f7, w2, rho, base, -ux - uy, omega);
    cell[8 * plane] = relaxed(f8, w2, rho, base, ux - uy, omega);
}
