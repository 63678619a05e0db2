#define WIDE 32
#define HIGH 8
#define PITCH (WIDE + 2)

extern "C" __global__ void start(const unsigned char *image, int *labels, int pixels, int limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels)
        labels[i] = image[i] < limit ? i : -1;
}

__device__ int lesser(int least, int other)
{
    return other >= 0 ? min(least, other) : least;
}

// Labels spread inside a tile with the pixels around it until nothing changes there, then go back to memory.
extern "C" __global__ void spread(const int *labels, int *next, int *changed, int height, int width)
{
    __shared__ int tile[(HIGH + 2) * PITCH];
    int x0 = blockIdx.x * WIDE - 1, y0 = blockIdx.y * HIGH - 1;
    for (int item = threadIdx.y * WIDE + threadIdx.x; item < (HIGH + 2) * PITCH; item += WIDE * HIGH) {
        int x = x0 + item % PITCH, y = y0 + item / PITCH;
        tile[item] = x >= 0 && x < width && y >= 0 && y < height ? labels[y * width + x] : -1;
    }
    __syncthreads();
    int at = (threadIdx.y + 1) * PITCH + threadIdx.x + 1;
    int before = tile[at], label = before, moved;
    do {
        int least = label;
        if (label >= 0) {
            least = lesser(least, tile[at - 1]);
            least = lesser(least, tile[at + 1]);
            least = lesser(least, tile[at - PITCH]);
            least = lesser(least, tile[at + PITCH]);
        }
        moved = __syncthreads_or(least != label);
        label = least;
        tile[at] = label;
        __syncthreads();
    } while (moved);
    int x = x0 + 1 + threadIdx.x, y = y0 + 1 + threadIdx.y;
    if (x < width && y < height) {
        next[y * width + x] = label;
        if (label != before)
            *changed = 1;
    }
}
