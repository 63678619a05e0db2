extern "C" __global__ void warp_cost(const float *a, const float *b, float *rows, float *costs, int pairs, int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const float *one = a + (size_t)pair * m, *other = b + (size_t)pair * n;
    float *row = rows + (size_t)pair * m;
    for (int i = 0; i < n; i++) {
        float diagonal = 0.0f, left = 1e30f;
        for (int j = 0; j < m; j++) {
            float above = i > 0 ? row[j] : 1e30f;
            float best = fminf(fminf(above, left), i > 0 && j == 0 ? 1e30f : diagonal);
            if (i == 0 && j > 0)
                best = left;
            left = fabsf(one[j] - other[i]) + best;
            diagonal = above;
            row[j] = left;
        }
    }
    costs[pair] = row[m - 1];
}
