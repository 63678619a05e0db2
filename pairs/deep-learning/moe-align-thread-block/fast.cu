#define THREADS 256

extern "C" __global__ void clear(int *order, int *tile_expert, int entries, int capacity, int tiles)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < capacity)
        order[i] = entries;
    if (i < tiles)
        tile_expert[i] = -1;
}

extern "C" __global__ void count(const int *ids, int *counts, int entries)
{
    __shared__ int part[THREADS];
    int tid = threadIdx.x, found = 0;
    for (int i = tid; i < entries; i += THREADS)
        found += ids[i] == blockIdx.x;
    part[tid] = found;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        counts[blockIdx.x] = part[0];
}

extern "C" __global__ void offsets(const int *counts, int *starts, int *tile_expert, int *total, int experts, int tile)
{
    int at = 0;
    for (int expert = 0; expert < experts; expert++) {
        starts[expert] = at;
        int tiles = (counts[expert] + tile - 1) / tile;
        for (int i = 0; i < tiles; i++)
            tile_expert[at / tile + i] = expert;
        at += tiles * tile;
    }
    total[0] = at;
}

// A block an expert: each chunk of entries is ranked by ballots.
extern "C" __global__ void place(const int *ids, const int *starts, int *order, int entries)
{
    __shared__ int found[THREADS / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int at = starts[blockIdx.x];
    for (int first = 0; first < entries; first += THREADS) {
        int i = first + threadIdx.x;
        bool mine = i < entries && ids[i] == blockIdx.x;
        unsigned votes = __ballot_sync(0xffffffffu, mine);
        if (lane == 0)
            found[warp] = __popc(votes);
        __syncthreads();
        int rank = __popc(votes & ((1u << lane) - 1)), whole = 0;
        for (int w = 0; w < THREADS / 32; w++) {
            rank += w < warp ? found[w] : 0;
            whole += found[w];
        }
        if (mine)
            order[at + rank] = i;
        at += whole;
        __syncthreads();
    }
}
