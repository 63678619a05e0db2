#define CELLS 8
#define NEVER 1e30f

// A thread for each pair goes down strips of eight columns, which it holds in registers. What passes from strip to
// strip lies side by side for neighbouring pairs.
extern "C" __global__ void warp_cost(const float *a, const float *b, float *edges, float *costs, int pairs, int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const float *one = a + (size_t)pair * m, *other = b + (size_t)pair * n;
    for (int strip = 0; strip < m; strip += CELLS) {
        float value[CELLS], up[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            value[c] = strip + c < m ? one[strip + c] : 0.0f;
            up[c] = NEVER;
        }
        float diagonal = strip == 0 ? 0.0f : NEVER;
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)i * pairs + pair;
            float left = strip > 0 ? edges[at] : NEVER;
            const float above_left = left, row_value = other[i];
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const float best = fminf(fminf(up[c], left), diagonal);
                diagonal = up[c];
                left = fabsf(value[c] - row_value) + best;
                up[c] = left;
            }
            diagonal = above_left;
            edges[at] = left;
        }
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            if (strip + c == m - 1)
                costs[pair] = up[c];
    }
}
