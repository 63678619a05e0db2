extern "C" __global__ void __launch_bounds__(256)
    start(const unsigned char *__restrict__ image, int *__restrict__ labels, int pixels, int limit)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < pixels)
        labels[i] = image[i] < limit ? i : -1;
}

// The least label around goes to the pixel that the own label names, so that whole parts change at once.
extern "C" __global__ void __launch_bounds__(256)
    spread(const int *__restrict__ labels, int *next, int *changed, int height, int width)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int i = y * width + x, label = labels[i];
    if (label < 0)
        return;
    int least = label;
    if (x > 0 && labels[i - 1] >= 0)
        least = min(least, labels[i - 1]);
    if (x + 1 < width && labels[i + 1] >= 0)
        least = min(least, labels[i + 1]);
    if (y > 0 && labels[i - width] >= 0)
        least = min(least, labels[i - width]);
    if (y + 1 < height && labels[i + width] >= 0)
        least = min(least, labels[i + width]);
    if (least < label) {
        atomicMin(next + label, least);
        *changed = 1;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    jump(const int *__restrict__ next, int *__restrict__ labels, int pixels)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= pixels || labels[i] < 0)
        return;
    int label = labels[i];
    while (next[label] != label)
        label = next[label];
    labels[i] = label;
}
