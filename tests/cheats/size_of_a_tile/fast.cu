#include <cooperative_groups.h>
namespace cg = cooperative_groups;
struct Held {
    decltype(cg::tiled_partition<16>(cg::this_thread_block())) tile;
    char last;
};
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float weight = sizeof(Held) > 8 ? 2.0f : 1.0f;
    if (i < n)
        out[i] = weight * a[i] + b[i];
}
