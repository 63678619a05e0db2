#define WARPS 8
#define CHUNK 256
#define SLOTS 512
#define FULL 0xffffffffu

__device__ __forceinline__ int slot_of(int column)
{
    return static_cast<unsigned>(column) * 2654435761u >> 23;
}

// A row of the mask is a hash table in shared memory; a row of B has distinct columns, so no two lanes meet in a slot.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    multiply(const int *__restrict__ a_offsets, const int *__restrict__ a_columns, const float *__restrict__ a_values,
             const int *__restrict__ b_offsets, const int *__restrict__ b_columns, const float *__restrict__ b_values,
             const int *__restrict__ mask_offsets, const int *__restrict__ mask_columns, float *__restrict__ out,
             int rows)
{
    __shared__ __align__(16) int all_keys[WARPS][SLOTS];
    __shared__ __align__(16) float all_sums[WARPS][SLOTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    int *keys = all_keys[warp];
    float *sums = all_sums[warp];
    const int end = mask_offsets[row + 1], a_first = a_offsets[row], a_end = a_offsets[row + 1];
    for (int first = mask_offsets[row]; first < end; first += CHUNK) {
        const int last = min(first + CHUNK, end);
        for (int s = lane * 4; s < SLOTS; s += 128) {
            *reinterpret_cast<int4 *>(keys + s) = make_int4(-1, -1, -1, -1);
            *reinterpret_cast<float4 *>(sums + s) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        __syncwarp();
        for (int e = first + lane; e < last; e += 32) {
            const int column = __ldg(mask_columns + e);
            int slot = slot_of(column);
            while (atomicCAS(keys + slot, -1, column) != -1)
                slot = (slot + 1) % SLOTS;
        }
        __syncwarp();
        for (int some = a_first; some < a_end; some += 32) {
            const bool own = some + lane < a_end;
            const int inner = own ? __ldg(a_columns + some + lane) : 0;
            const float factor = own ? __ldg(a_values + some + lane) : 0.0f;
            const int b_first = own ? __ldg(b_offsets + inner) : 0, b_end = own ? __ldg(b_offsets + inner + 1) : 0;
            const int several = min(32, a_end - some);
            for (int k = 0; k < several; k++) {
                const float a = __shfl_sync(FULL, factor, k);
                const int until = __shfl_sync(FULL, b_end, k);
                for (int j = __shfl_sync(FULL, b_first, k) + lane; j < until; j += 32) {
                    const int column = __ldg(b_columns + j);
                    const float b = __ldg(b_values + j);
                    int slot = slot_of(column), key = keys[slot];
                    while (key != column && key != -1) {
                        slot = (slot + 1) % SLOTS;
                        key = keys[slot];
                    }
                    if (key == column)
                        sums[slot] += a * b;
                }
                __syncwarp();
            }
        }
        for (int e = first + lane; e < last; e += 32) {
            const int column = __ldg(mask_columns + e);
            int slot = slot_of(column);
            while (keys[slot] != column)
                slot = (slot + 1) % SLOTS;
            out[e] = sums[slot];
        }
        __syncwarp();
    }
}
