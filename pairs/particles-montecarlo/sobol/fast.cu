#define THREADS 256
#define SPAN (4 * THREADS)
#define REPEAT 8

// The upper bits are the same for a whole span, the lowest two for four numbers in a row.
extern "C" __global__ void __launch_bounds__(THREADS)
    sobol(const unsigned *__restrict__ directions, unsigned *__restrict__ out, int n)
{
    __shared__ unsigned v[32];
    if (threadIdx.x < 32)
        v[threadIdx.x] = directions[blockIdx.y * 32 + threadIdx.x];
    __syncthreads();
    unsigned own = 0;
    const unsigned low = 4 * threadIdx.x, gray = low ^ low >> 1;
#pragma unroll
    for (int bit = 1; bit < 10; bit++)
        own ^= gray >> bit & 1 ? v[bit] : 0;
    const unsigned first = v[0], second = v[1];
    unsigned *to = out + static_cast<size_t>(blockIdx.y) * n;
#pragma unroll
    for (int r = 0; r < REPEAT; r++) {
        const unsigned base = (blockIdx.x * REPEAT + r) * SPAN;
        if (base >= static_cast<unsigned>(n))
            break;
        unsigned above = own;
        for (unsigned rest = (base ^ base >> 1) >> 9; rest != 0; rest &= rest - 1)
            above ^= v[8 + __ffs(rest)];
        const unsigned at = base + low;
        const uint4 four = make_uint4(above, above ^ first, above ^ first ^ second, above ^ second);
        if (n % 4 == 0 && at < static_cast<unsigned>(n)) {
            __stcs(reinterpret_cast<uint4 *>(to + at), four);
        } else {
            const unsigned part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (at + k < static_cast<unsigned>(n))
                    to[at + k] = part[k];
        }
    }
}
