#define T 64

extern "C" __global__ void borders(int *row, int *column, int *corners, int n, int m, int gap)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int down = (n + T - 1) / T;
    if (at <= m)
        row[at] = -gap * (at == 0 ? n : at);
    if (at <= n)
        column[at] = -gap * at;
    if (at < down + (m + T - 1) / T)
        corners[at] = -gap * T * (at < down ? down - 1 - at : at - (down - 1));
}

extern "C" __global__ void tiles(const unsigned char *a, const unsigned char *b, int *row, int *column, int *corners,
                                 int k, int n, int m, int match, int mismatch, int gap)
{
    __shared__ int edge[2][1 + T];
    __shared__ int left_edge[T];
    __shared__ unsigned char letters[T];
    int down = (n + T - 1) / T, across = (m + T - 1) / T;
    int tile_i = min(k, down - 1) - blockIdx.x;
    int tile_j = k - tile_i;
    if (tile_i < 0 || tile_j >= across)
        return;
    int t = threadIdx.x;
    int i0 = tile_i * T, j = tile_j * T + t + 1;
    int rows = min(T, n - i0);
    int corner = tile_j - tile_i + down - 1;

    int up = j <= m ? row[j] : 0;
    int diagonal = t == 0 ? corners[corner] : (j - 1 <= m ? row[j - 1] : 0);
    if (t < rows) {
        left_edge[t] = column[i0 + t + 1];
        letters[t] = a[i0 + t];
    }
    unsigned char letter = j <= m ? b[j - 1] : 0;
    __syncthreads();
    for (int step = 0; step < rows + T - 1; step++) {
        int i = step - t;
        if (i >= 0 && i < rows && j <= m) {
            int left = t == 0 ? left_edge[i] : edge[step % 2][t];
            int score = diagonal + (letters[i] == letter ? match : mismatch);
            score = max(score, max(up, left) - gap);
            diagonal = left;
            up = score;
            edge[(step + 1) % 2][t + 1] = score;
            if (t == T - 1 || j == m)
                column[i0 + i + 1] = score;
        }
        __syncthreads();
    }
    if (j <= m)
        row[j] = up;
    if (t == T - 1)
        corners[corner] = up;
}
