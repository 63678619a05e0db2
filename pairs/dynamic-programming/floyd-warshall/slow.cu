extern "C" __global__ void relax(int *distances, int n, int k)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n)
        return;
    int through = distances[i * n + k] + distances[k * n + j];
    if (through < distances[i * n + j])
        distances[i * n + j] = through;
}
