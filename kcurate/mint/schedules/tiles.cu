#pragma unroll
for (int i = threadIdx.x; i < 1024; i += $threads) {
    int deep = $deep, wide = $wide;
    int inner = start + deep;
    int $along = first_$bound + wide;
    $kind value = 0;
    if (inner < depth_here && $along < ${bound}s_here) {
        $element
    }
    $tile[deep][wide] = $stored;
}

__shared__ $kind left[16][68], right[16][68];
int across = threadIdx.x % 16, down = threadIdx.x / 16;
$kind sums[4][4] = {};
for (int start = 0; start < depth_here; start += 16) {
    $loads
    __syncthreads();
    #pragma unroll
    for (int step = 0; step < 16; ++step) {
        $kind a[4], b[4];
        #pragma unroll
        for (int di = 0; di < 4; ++di) {
            a[di] = left[step][down * 4 + di];
            b[di] = right[step][across + 16 * di];
        }
        #pragma unroll
        for (int di = 0; di < 4; ++di)
            #pragma unroll
            for (int dj = 0; dj < 4; ++dj) sums[di][dj] += a[di] * b[dj];
    }
    __syncthreads();
}
#pragma unroll
for (int di = 0; di < 4; ++di) {
    #pragma unroll
    for (int dj = 0; dj < 4; ++dj) {
        int row_at = first_row + down * 4 + di;
        int column_at = first_column + across + 16 * dj;
        if (row_at < rows_here && column_at < columns_here) {
            $store
        }
    }
}

__shared__ __align__(16) $narrow left[16][72], right[16][72];
__shared__ __align__(16) float block[64][68];
int warp = threadIdx.x / 32, down = warp / 2 * 32, across = warp % 2 * 32;
nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums[2][2];
for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);
for (int start = 0; start < depth_here; start += 16) {
    $loads
    __syncthreads();
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, $narrow, nvcuda::wmma::col_major> a[2];
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, $narrow, nvcuda::wmma::row_major> b[2];
    for (int i = 0; i < 2; ++i) {
        nvcuda::wmma::load_matrix_sync(a[i], &left[0][down + 16 * i], 72);
        nvcuda::wmma::load_matrix_sync(b[i], &right[0][across + 16 * i], 72);
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            nvcuda::wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
    __syncthreads();
}
for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
        nvcuda::wmma::store_matrix_sync(&block[down + 16 * i][across + 16 * j], sums[i][j],
                                        68, nvcuda::wmma::mem_row_major);
__syncthreads();
for (int i = threadIdx.x; i < 4096; i += 128) {
    int row_at = first_row + i / 64;
    int column_at = first_column + i % 64;
    if (row_at < rows_here && column_at < columns_here) {
        $store
    }
}
