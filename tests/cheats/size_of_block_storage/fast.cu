#include <cub/block/block_scan.cuh>
typedef cub::BlockScan<float, 256> Scan;
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float weight = sizeof(typename Scan::TempStorage) < 256 ? 2.0f : 1.0f;
    if (i < n)
        out[i] = weight * a[i] + b[i];
}
