// Over all lanes of a warp; every lane gets the result.
__device__ __forceinline__ $kind warp_${how}_$kind($kind value)
{
    for (int offset = 16; offset > 0; offset >>= 1) {
        $kind other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = $both;
    }
    return value;
}

// Over all threads of a block; every thread gets the result.
__device__ __forceinline__ $kind block_${how}_$kind($kind value)
{
    __shared__ $kind totals[32];
    value = warp_${how}_$kind(value);
    if ((threadIdx.x & 31) == 0) totals[threadIdx.x >> 5] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? totals[threadIdx.x % 32] : $first;
    value = warp_${how}_$kind(value);
    __syncthreads();
    return value;
}

// Over the eight threads of each column of a block of 32 by 8; all of them get the result.
__device__ __forceinline__ $kind column_${how}_$kind($kind value)
{
    __shared__ $kind parts[8][32];
    parts[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    value = parts[0][threadIdx.x];
    for (int y = 1; y < 8; ++y) {
        $kind other = parts[y][threadIdx.x];
        value = $both;
    }
    __syncthreads();
    return value;
}

// Inclusive scan over the threads of a block, after `carry`, which becomes the carry for the next tile.
__device__ __forceinline__ $kind block_scan_${how}_$kind($kind value, $kind *carry)
{
    __shared__ $kind totals[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int offset = 1; offset < 32; offset <<= 1) {
        $kind other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value = $both;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    $kind before = *carry;
    for (int w = 0; w < blockDim.x / 32; ++w) {
        if (w == warp) {
            $kind other = before;
            value = $both;
        }
        $kind other = totals[w];
        before = $carried;
    }
    *carry = before;
    __syncthreads();
    return value;
}
