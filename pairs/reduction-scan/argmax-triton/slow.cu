#define BLOCK 256

__device__ bool better(int value, int place, int other, int other_place)
{
    return value > other || (value == other && place < other_place);
}

__device__ void reduce_block(int value, int place, int *best, int *best_place)
{
    __shared__ int values[BLOCK];
    __shared__ int places[BLOCK];
    int tid = threadIdx.x;
    values[tid] = value;
    places[tid] = place;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (tid < stride && better(values[tid + stride], places[tid + stride], values[tid], places[tid])) {
            values[tid] = values[tid + stride];
            places[tid] = places[tid + stride];
        }
        __syncthreads();
    }
    if (tid == 0) {
        best[blockIdx.x] = values[0];
        best_place[blockIdx.x] = places[0];
    }
}

extern "C" __global__ void argmax(const int *values, int *best, int *best_place, int n)
{
    int i = min(blockIdx.x * BLOCK + threadIdx.x, n - 1);
    reduce_block(values[i], i, best, best_place);
}

extern "C" __global__ void argmax_of_pairs(const int *values, const int *places, int *best, int *best_place,
                                           int n)
{
    int i = min(blockIdx.x * BLOCK + threadIdx.x, n - 1);
    reduce_block(values[i], places[i], best, best_place);
}
