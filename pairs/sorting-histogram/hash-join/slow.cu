extern "C" __global__ void build(const int *keys, int *table_keys, int *table_rows, int n, int slots)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int key = keys[i];
    int slot = (unsigned)key * 2654435761u % (unsigned)slots;
    while (atomicCAS(&table_keys[slot], -1, key) != -1)
        slot = (slot + 1) % slots;
    table_rows[slot] = i;
}

extern "C" __global__ void probe(const int *probes, const int *table_keys, const int *table_rows, const int *payload,
                                 int *joined, int m, int slots)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    int key = probes[i];
    int slot = (unsigned)key * 2654435761u % (unsigned)slots;
    int result = -1;
    while (table_keys[slot] != -1) {
        if (table_keys[slot] == key) {
            result = payload[table_rows[slot]];
            break;
        }
        slot = (slot + 1) % slots;
    }
    joined[i] = result;
}
