extern "C" __global__ void warp_image(const unsigned char *image, unsigned char *out, int height, int width,
                                      int out_height, int out_width, int xx, int xy, int x0, int yx, int yy, int y0)
{
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (item >= 3 * out_width)
        return;
    int x = item / 3, channel = item % 3;
    int from_x = xx * x + xy * y + x0, from_y = yx * x + yy * y + y0;
    int left = from_x >> 16, top = from_y >> 16;
    int fx = from_x >> 8 & 255, fy = from_y >> 8 & 255;
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            int weight = (i ? fy : 256 - fy) * (j ? fx : 256 - fx);
            if (top + i >= 0 && top + i < height && left + j >= 0 && left + j < width)
                sum += weight * image[((size_t)(top + i) * width + left + j) * 3 + channel];
        }
    }
    out[((size_t)y * out_width + x) * 3 + channel] = (sum + 32768) >> 16;
}
