extern "C" __global__ void clear(int *order, int *tile_expert, int entries, int capacity, int tiles)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < capacity)
        order[i] = entries;
    if (i < tiles)
        tile_expert[i] = -1;
}

extern "C" __global__ void count(const int *ids, int *counts, int entries, int experts)
{
    int expert = blockIdx.x * blockDim.x + threadIdx.x;
    if (expert >= experts)
        return;
    int found = 0;
    for (int i = 0; i < entries; i++)
        if (ids[i] == expert)
            found++;
    counts[expert] = found;
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

extern "C" __global__ void place(const int *ids, const int *starts, int *order, int entries, int experts)
{
    int expert = blockIdx.x * blockDim.x + threadIdx.x;
    if (expert >= experts)
        return;
    int at = starts[expert];
    for (int i = 0; i < entries; i++)
        if (ids[i] == expert)
            order[at++] = i;
}
