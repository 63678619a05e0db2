// A block converts 4096 pixels: 16 bytes a load into shared memory, 48 bytes (16 pixels) a thread from there.
#define THREADS 256
#define PIXELS (16 * THREADS)

__device__ __forceinline__ unsigned weigh(unsigned r, unsigned g, unsigned b)
{
    return (77 * r + 150 * g + 29 * b + 128) >> 8;
}

__device__ __forceinline__ unsigned byte_of(unsigned word, int index)
{
    return (word >> (8 * index)) & 255u;
}

__device__ __forceinline__ unsigned four_pixels(unsigned a, unsigned b, unsigned c)
{
    return weigh(byte_of(a, 0), byte_of(a, 1), byte_of(a, 2)) |
           weigh(byte_of(a, 3), byte_of(b, 0), byte_of(b, 1)) << 8 |
           weigh(byte_of(b, 2), byte_of(b, 3), byte_of(c, 0)) << 16 |
           weigh(byte_of(c, 1), byte_of(c, 2), byte_of(c, 3)) << 24;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    to_gray(const unsigned char *__restrict__ rgb, unsigned char *__restrict__ gray, int pixels)
{
    __shared__ uint4 staged[3 * THREADS];
    const int first = blockIdx.x * PIXELS;
    if (first + PIXELS > pixels) {
        for (int i = first + threadIdx.x; i < pixels; i += THREADS) {
            const unsigned char *p = rgb + 3 * (size_t)i;
            gray[i] = weigh(p[0], p[1], p[2]);
        }
        return;
    }
    const uint4 *from = reinterpret_cast<const uint4 *>(rgb + 3 * (size_t)first);
#pragma unroll
    for (int i = 0; i < 3; i++)
        staged[i * THREADS + threadIdx.x] = __ldg(from + i * THREADS + threadIdx.x);
    __syncthreads();
    const uint4 a = staged[3 * threadIdx.x], b = staged[3 * threadIdx.x + 1], c = staged[3 * threadIdx.x + 2];
    uint4 result;
    result.x = four_pixels(a.x, a.y, a.z);
    result.y = four_pixels(a.w, b.x, b.y);
    result.z = four_pixels(b.z, b.w, c.x);
    result.w = four_pixels(c.y, c.z, c.w);
    reinterpret_cast<uint4 *>(gray + first)[threadIdx.x] = result;
}
