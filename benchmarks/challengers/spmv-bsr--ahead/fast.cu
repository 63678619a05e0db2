#define WARPS 4
#define BLOCKS 4
#define ALL 0xffffffffu

__device__ __forceinline__ float dot(float4 p, float4 q, float sum)
{
    sum = fmaf(p.x, q.x, sum);
    sum = fmaf(p.y, q.y, sum);
    sum = fmaf(p.z, q.z, sum);
    return fmaf(p.w, q.w, sum);
}

// Up to 32 blocks of a row, four a lane; a block's four rows lie in four neighbouring lanes.
struct Part {
    int column[BLOCKS];
    float4 value[BLOCKS];
};

__device__ __forceinline__ void load(Part &part, const int *__restrict__ columns, const float4 *__restrict__ values,
                                     int begin, int end)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int i = begin + 8 * b + lane / 4;
        part.column[b] = i < end ? __ldcs(columns + i) : -1;
        part.value[b] = i < end ? __ldcs(values + static_cast<size_t>(i) * 4 + lane % 4)
                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

// Resident warps walk over rows of blocks. While one part of a row waits for its numbers of x, the columns and values of
// the next part, of this row or of the warp's next one, are on their way; a row's ends are read a row earlier.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 7)
    spmv(const int *__restrict__ offsets, const int *__restrict__ columns, const float4 *__restrict__ values,
         const float4 *__restrict__ x, float *__restrict__ y, int brows)
{
    const int lane = threadIdx.x % 32, stride = gridDim.x * WARPS;
    int brow = blockIdx.x * WARPS + threadIdx.x / 32;
    if (brow >= brows)
        return;
    int begin = offsets[brow], end = offsets[brow + 1];
    int next_begin = 0, next_end = 0;
    if (brow + stride < brows) {
        next_begin = offsets[brow + stride];
        next_end = offsets[brow + stride + 1];
    }
    Part part;
    load(part, columns, values, begin, end);
    float sum = 0.0f;
    while (true) {
        float4 by[BLOCKS], value[BLOCKS];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            by[b] = part.column[b] >= 0 ? __ldg(x + part.column[b]) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            value[b] = part.value[b];
        }
        begin += 8 * BLOCKS;
        const bool last = begin >= end;
        const int done = brow;
        if (last) {
            brow += stride;
            begin = next_begin;
            end = next_end;
            if (brow + stride < brows) {
                next_begin = offsets[brow + stride];
                next_end = offsets[brow + stride + 1];
            }
        }
        if (brow < brows)
            load(part, columns, values, begin, end);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            sum = dot(value[b], by[b], sum);
        if (!last)
            continue;
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
            sum += __shfl_xor_sync(ALL, sum, offset);
        if (lane < 4)
            y[done * 4 + lane] = sum;
        sum = 0.0f;
        if (brow >= brows)
            return;
    }
}
