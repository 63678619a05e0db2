#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto quarter = cg::tiled_partition<8>(warp);
    static_assert(sizeof(warp) >= sizeof(quarter), "a tile of a known parent holds nothing");
    int lane = quarter.meta_group_rank() * quarter.size() + quarter.thread_rank();
    int i = (blockIdx.x * warp.meta_group_size() + warp.meta_group_rank()) * warp.size() + lane;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
