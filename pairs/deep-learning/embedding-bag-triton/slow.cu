extern "C" __global__ void embedding_bag(const float *table, const int *indices, const int *offsets, float *out,
                                         int bags, int dim)
{
    int bag = blockIdx.x * blockDim.x + threadIdx.x;
    if (bag >= bags)
        return;
    for (int d = 0; d < dim; d++) {
        float sum = 0.0f;
        for (int i = offsets[bag]; i < offsets[bag + 1]; i++)
            sum += table[indices[i] * dim + d];
        out[bag * dim + d] = sum;
    }
}
