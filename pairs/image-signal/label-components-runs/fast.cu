#define FULL 0xffffffffu

// Each pixel starts with the first pixel of its run within 32 neighbours of its row.
extern "C" __global__ void __launch_bounds__(256)
    label_runs(const unsigned char *__restrict__ image, int *__restrict__ labels, int height, int width, int limit)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const bool inside = x < width && y < height;
    const bool set = inside && image[static_cast<size_t>(y) * width + x] < limit;
    const unsigned unset = ~__ballot_sync(FULL, set) & ((1u << threadIdx.x) - 1);
    const int start = unset ? 32 - __clz(unset) : 0;
    if (inside)
        labels[y * width + x] = set ? y * width + blockIdx.x * 32 + start : -1;
}

__device__ __forceinline__ int find(const volatile int *labels, int i)
{
    int label = labels[i];
    while (label != i) {
        i = label;
        label = labels[i];
    }
    return i;
}

__device__ __forceinline__ void unite(int *labels, int a, int b)
{
    a = find(labels, a);
    b = find(labels, b);
    while (a != b) {
        if (a < b) {
            const int t = a;
            a = b;
            b = t;
        }
        const int before = atomicMin(labels + a, b);
        if (before == a)
            break;
        a = find(labels, before);
        b = find(labels, b);
    }
}

// Runs that touch become one tree: across the edges of 32 pixels, and upwards once for each contact.
extern "C" __global__ void __launch_bounds__(256) join_runs(int *labels, int height, int width)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const volatile int *seen = labels;
    const int i = y * width + x;
    if (seen[i] < 0)
        return;
    const bool left = x > 0 && seen[i - 1] >= 0;
    if (left && threadIdx.x == 0)
        unite(labels, i, i - 1);
    if (y > 0 && seen[i - width] >= 0) {
        const bool above_left = x > 0 && seen[i - width - 1] >= 0;
        if (!left || !above_left || threadIdx.x == 0)
            unite(labels, i, i - width);
    }
}

extern "C" __global__ void __launch_bounds__(256) flatten(int *labels, int pixels)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < pixels && labels[i] >= 0)
        labels[i] = find(labels, i);
}
