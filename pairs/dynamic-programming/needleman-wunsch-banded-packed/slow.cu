#define WARPS 8
#define HALF 32
#define NEVER (-1000000000)
#define FULL 0xffffffffu

// Two diagonals per lane, of even and of odd offset: each anti-diagonal of the band moves all lanes on by one cell.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    align(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, const int *__restrict__ lengths,
          int *__restrict__ scores, int pairs, int longest, int match, int mismatch, int gap)
{
    extern __shared__ unsigned char letters[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int pair = blockIdx.x * WARPS + warp;
    if (pair >= pairs)
        return;
    unsigned char *text_a = letters + 2 * warp * longest, *text_b = text_a + longest;
    const int n = lengths[2 * pair], m = lengths[2 * pair + 1];
    for (int k = lane; k < n; k += 32)
        text_a[k] = a[static_cast<size_t>(pair) * longest + k];
    for (int k = lane; k < m; k += 32)
        text_b[k] = b[static_cast<size_t>(pair) * longest + k];
    __syncwarp();

    int even = lane == HALF / 2 ? 0 : NEVER, odd = NEVER;
    const int last = n + m;
    for (int turn = 0; 2 * turn <= last; turn++) {
        const int i = turn - lane + HALF / 2;
        int j = turn + lane - HALF / 2;
        const int letter = i > 0 && i <= n ? text_a[i - 1] : 256;
        int left = __shfl_up_sync(FULL, odd, 1);
        if (lane == 0)
            left = NEVER;
        if (turn > 0) {
            const int other = j > 0 && j <= m ? text_b[j - 1] : 257;
            const int across = even + (letter == other ? match : mismatch);
            even = __viaddmax_s32(max(odd, left), -gap, across);
            if (i < 0 || j < 0)
                even = NEVER;
            else if (i == 0 || j == 0)
                even = -gap * (i + j);
        }
        int up = __shfl_down_sync(FULL, even, 1);
        if (2 * turn + 1 > last)
            break;
        if (lane == 31)
            up = NEVER;
        j++;
        const int other = j > 0 && j <= m ? text_b[j - 1] : 257;
        const int across = odd + (letter == other ? match : mismatch);
        odd = __viaddmax_s32(max(even, up), -gap, across);
        if (i < 0 || j < 0)
            odd = NEVER;
        else if (i == 0 || j == 0)
            odd = -gap * (i + j);
    }
    const int offset = m - n + HALF;
    if (lane == offset / 2)
        scores[pair] = offset % 2 ? odd : even;
}
