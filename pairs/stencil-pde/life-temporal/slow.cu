#define DOWN 4

// 32 cells per word, taken by a vote.
extern "C" __global__ void __launch_bounds__(256)
    pack(const unsigned char *__restrict__ cells, unsigned *__restrict__ words, int height, int width, int stride)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const bool alive = x < width && y < height && cells[static_cast<size_t>(y) * width + x] != 0;
    const unsigned word = __ballot_sync(0xffffffffu, alive);
    if (threadIdx.x == 0 && y < height)
        words[static_cast<size_t>(y) * stride + blockIdx.x] = word;
}

extern "C" __global__ void __launch_bounds__(256)
    unpack(const unsigned *__restrict__ words, unsigned char *__restrict__ cells, int height, int width, int stride)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height)
        cells[static_cast<size_t>(y) * width + x] =
            __ldg(words + static_cast<size_t>(y) * stride + blockIdx.x) >> threadIdx.x & 1;
}

struct row_of_cells {
    unsigned left, own, right;
};

__device__ __forceinline__ row_of_cells take(const unsigned *__restrict__ words, int y, int x, int height, int stride)
{
    row_of_cells row = {0, 0, 0};
    if (y >= 0 && y < height) {
        const unsigned *at = words + static_cast<size_t>(y) * stride + x;
        const unsigned before = x > 0 ? __ldg(at - 1) : 0, after = x + 1 < stride ? __ldg(at + 1) : 0;
        row.own = __ldg(at);
        row.left = __funnelshift_l(before, row.own, 1);
        row.right = __funnelshift_r(row.own, after, 1);
    }
    return row;
}

// Neighbours of 32 cells are added up bit by bit: full adders over whole words.
extern "C" __global__ void __launch_bounds__(128)
    step(const unsigned *__restrict__ words, unsigned *__restrict__ next, int height, int width, int stride)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = (blockIdx.y * 4 + threadIdx.y) * DOWN;
    if (x >= stride)
        return;
    const unsigned inside = width - x * 32 >= 32 ? 0xffffffffu : (1u << (width - x * 32)) - 1;
    row_of_cells rows[DOWN + 2];
#pragma unroll
    for (int i = 0; i < DOWN + 2; i++)
        rows[i] = take(words, y - 1 + i, x, height, stride);
#pragma unroll
    for (int i = 0; i < DOWN; i++) {
        const row_of_cells a = rows[i], b = rows[i + 1], c = rows[i + 2];
        const unsigned a_one = a.left ^ a.own ^ a.right, c_one = c.left ^ c.own ^ c.right, b_one = b.left ^ b.right;
        const unsigned a_two = (a.left & a.own) | (a.right & (a.left | a.own));
        const unsigned c_two = (c.left & c.own) | (c.right & (c.left | c.own));
        const unsigned b_two = b.left & b.right;
        const unsigned odd = a_one ^ b_one ^ c_one, carry = (a_one & b_one) | (c_one & (a_one | b_one));
        const unsigned one_pair = (a_two ^ b_two ^ c_two ^ carry) & ~((a_two & b_two) | (c_two & carry));
        if (y + i < height)
            next[static_cast<size_t>(y + i) * stride + x] = one_pair & (odd | b.own) & inside;
    }
}
