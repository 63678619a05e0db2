extern "C" __global__ void to_gray(const unsigned char *rgb, unsigned char *gray, int pixels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pixels)
        return;
    unsigned char r = rgb[3 * i];
    unsigned char g = rgb[3 * i + 1];
    unsigned char b = rgb[3 * i + 2];
    gray[i] = (77 * r + 150 * g + 29 * b + 128) / 256;
}
