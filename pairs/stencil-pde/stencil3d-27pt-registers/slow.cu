#define COLS 64
#define ROWS 8
#define OWN 2
#define THREADS (COLS * ROWS / OWN)
#define PLANES 64
#define STAGES 4
#define STRIDE (COLS + 8)

typedef unsigned long long word;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void wait_for(word *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

struct box {
    int x, y, z, depth, height, width;
};

// The rows of a plane that the block needs, a bulk copy each; or all threads copy where rows are not whole 16 bytes.
__device__ __forceinline__ void request(float *stage, word *full, const float *__restrict__ in, const box &at, int z)
{
    const int begin = max(at.x - 4, 0), end = min(at.x + COLS + 4, at.width);
    const int first = max(at.y - 1, 0), last = min(at.y + ROWS + 1, at.height);
    const size_t plane = static_cast<size_t>(z) * at.height;
    if (at.width % 4 == 0) {
        if (threadIdx.x < 32) {
            if (threadIdx.x == 0)
                asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                                 shared_address(full)),
                             "r"((last - first) * (end - begin) * 4)
                             : "memory");
            __syncwarp();
            const int row = first + threadIdx.x;
            if (row < last)
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                        shared_address(stage + (row - at.y + 1) * STRIDE + begin - at.x + 4)),
                    "l"(in + (plane + row) * at.width + begin), "r"((end - begin) * 4), "r"(shared_address(full))
                    : "memory");
        }
    } else {
        for (int item = threadIdx.x; item < (last - first) * (end - begin); item += THREADS) {
            const int row = first + item / (end - begin), col = begin + item % (end - begin);
            stage[(row - at.y + 1) * STRIDE + col - at.x + 4] = in[(plane + row) * at.width + col];
        }
    }
}

// Each plane is summed once, by the distance from its middle; an output takes the sums of three planes from registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    stencil(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, float centre,
            float face, float edge, float corner)
{
    __shared__ __align__(128) float stages[STAGES][(ROWS + 2) * STRIDE];
    __shared__ word full[STAGES];
    const box at = {static_cast<int>(blockIdx.x) * COLS,
                    static_cast<int>(blockIdx.y) * ROWS,
                    static_cast<int>(blockIdx.z) * PLANES,
                    depth,
                    height,
                    width};
    const int begin = max(at.z - 1, 0), end = min(at.z + PLANES + 1, depth);
    const bool bulk = width % 4 == 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(full + s)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    for (int s = 0; s < STAGES && begin + s < end; s++)
        request(stages[s], full + s, in, at, begin + s);
    const int col = threadIdx.x % COLS, row = threadIdx.x / COLS * OWN;
    const int x = at.x + col;
    float middle[OWN][3] = {}, side[OWN][3] = {}, diagonal[OWN][3] = {};
#pragma unroll 1
    for (int z = begin; z < end; z++) {
        const int s = (z - begin) % STAGES;
        if (bulk)
            wait_for(full + s, (z - begin) / STAGES % 2);
        else
            __syncthreads();
        float line[OWN + 2], own[OWN + 2];
#pragma unroll
        for (int r = 0; r < OWN + 2; r++) {
            const float *from = stages[s] + (row + r) * STRIDE + col + 4;
            own[r] = from[0];
            line[r] = from[-1] + from[1];
        }
#pragma unroll
        for (int r = 0; r < OWN; r++) {
            const int y = at.y + row + r;
#pragma unroll
            for (int p = 0; p < 2; p++) {
                middle[r][p] = middle[r][p + 1];
                side[r][p] = side[r][p + 1];
                diagonal[r][p] = diagonal[r][p + 1];
            }
            middle[r][2] = own[r + 1];
            side[r][2] = line[r + 1] + own[r] + own[r + 2];
            diagonal[r][2] = line[r] + line[r + 2];
            if (x >= width || y >= height)
                continue;
            const bool rim = x == 0 || x == width - 1 || y == 0 || y == height - 1;
            const size_t place = (static_cast<size_t>(z) * height + y) * width + x;
            if ((z == 0 || z == depth - 1) && z >= at.z && z < at.z + PLANES)
                __stcs(out + place, own[r + 1]);
            if (z - 1 >= max(at.z, 1) && z - 1 < at.z + PLANES)
                __stcs(out + place - static_cast<size_t>(height) * width,
                       rim ? middle[r][1]
                           : centre * middle[r][1] + face * (side[r][1] + middle[r][0] + middle[r][2]) +
                                 edge * (diagonal[r][1] + side[r][0] + side[r][2]) +
                                 corner * (diagonal[r][0] + diagonal[r][2]));
        }
        __syncthreads();
        if (z + STAGES < end)
            request(stages[s], full + s, in, at, z + STAGES);
    }
}
