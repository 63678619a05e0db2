extern "C" __global__ void start(const unsigned char *image, int *labels, int pixels, int limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels)
        labels[i] = image[i] < limit ? i : -1;
}

extern "C" __global__ void spread(const int *labels, int *next, int *changed, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = y * width + x;
    int label = labels[i], least = label;
    if (label >= 0) {
        if (x > 0 && labels[i - 1] >= 0)
            least = min(least, labels[i - 1]);
        if (x + 1 < width && labels[i + 1] >= 0)
            least = min(least, labels[i + 1]);
        if (y > 0 && labels[i - width] >= 0)
            least = min(least, labels[i - width]);
        if (y + 1 < height && labels[i + width] >= 0)
            least = min(least, labels[i + width]);
    }
    next[i] = least;
    if (least != label)
        *changed = 1;
}
