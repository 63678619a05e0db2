#include <cooperative_groups.h>
#include <cuda_bf16.h>

#define BLOCKS 16
#define THREADS 512
#define RESIDENT 2
#define WARPS (THREADS / 32)
#define PIECES 8
#define HELD_BYTES 112640
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void copy_bulk(void *to, const bf16 *from, int bytes, unsigned long long *ready)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(ready))
                 : "memory");
}

__device__ __forceinline__ void wait_for(unsigned long long *barrier)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier))
                     : "memory");
}

// The sums over a cluster: in each warp, in each block, then over the blocks' shared memory.
__device__ __forceinline__ float2 cluster_sums(float2 value)
{
    __shared__ float2 parts[WARPS], whole;
    cg::cluster_group cluster = cg::this_cluster();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < WARPS ? parts[threadIdx.x] : make_float2(0.0f, 0.0f);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            value.x += __shfl_xor_sync(ALL, value.x, offset);
            value.y += __shfl_xor_sync(ALL, value.y, offset);
        }
        if (threadIdx.x == 0)
            whole = value;
    }
    cluster.sync();
    value = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        const float2 other = *cluster.map_shared_rank(&whole, block);
        value = make_float2(value.x + other.x, value.y + other.y);
    }
    return value;
}

// A cluster a channel, a block a share of its images: x and dy stay in shared memory, so that memory is read once. Bulk
// copies in PIECES with a barrier each, so that the first images are summed while the others arrive.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    batchnorm_backward(const bf16 *__restrict__ x, const bf16 *__restrict__ dy, const float *__restrict__ weight,
                       const float *__restrict__ mean, const float *__restrict__ rstd, bf16 *__restrict__ dx,
                       float *__restrict__ dweight, float *__restrict__ dbias, int n, int channels, int space)
{
    extern __shared__ uint4 held[];
    __shared__ unsigned long long ready[PIECES];
    const int channel = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS, most = (n + BLOCKS - 1) / BLOCKS;
    const int first = min(n, rank * most), images = min(n, first + most) - first;
    const int step = space / 8, per_piece = (images + PIECES - 1) / PIECES;
    const bool whole = space % 8 == 0 && static_cast<long long>(most) * space * 4 <= HELD_BYTES;
    const size_t stride = static_cast<size_t>(channels) * space;
    const size_t begin = static_cast<size_t>(first) * stride + static_cast<size_t>(channel) * space;
    const float middle = mean[channel];
    const uint4 *values = held, *grads = held + most * step;
    float2 sums = make_float2(0.0f, 0.0f);
    if (whole) {
        if (threadIdx.x < 32) {
            if (threadIdx.x < PIECES) {
                const int share = max(0, min(images, (static_cast<int>(threadIdx.x) + 1) * per_piece) -
                                             static_cast<int>(threadIdx.x) * per_piece);
                asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(ready + threadIdx.x)) : "memory");
                asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                                 shared_address(ready + threadIdx.x)),
                             "r"(share * space * 4)
                             : "memory");
            }
            __syncwarp();
            for (int i = threadIdx.x; i < images; i += 32) {
                copy_bulk(held + i * step, x + begin + i * stride, space * 2, ready + i / per_piece);
                copy_bulk(held + (most + i) * step, dy + begin + i * stride, space * 2, ready + i / per_piece);
            }
        }
        __syncthreads();
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 2
            for (int i = p * per_piece * step + threadIdx.x; i < min(images, (p + 1) * per_piece) * step; i += THREADS) {
                const uint4 a = values[i], g = grads[i];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float2 v = at(a, j), d = at(g, j);
                    sums.x = fmaf(d.x, v.x - middle, fmaf(d.y, v.y - middle, sums.x));
                    sums.y += d.x + d.y;
                }
            }
        }
    } else {
        for (int i = threadIdx.x / 32; i < images; i += WARPS)
            for (int at = threadIdx.x % 32; at < space; at += 32) {
                const float d = __bfloat162float(dy[begin + i * stride + at]);
                sums.x = fmaf(d, __bfloat162float(x[begin + i * stride + at]) - middle, sums.x);
                sums.y += d;
            }
    }
    sums = cluster_sums(sums);
    cg::this_cluster().barrier_arrive();
    const float scale = rstd[channel], count = static_cast<float>(n) * space;
    if (rank == 0 && threadIdx.x == 0) {
        dweight[channel] = sums.x * scale;
        dbias[channel] = sums.y;
    }
    // dx = by * dy + slope * x + shift
    const float by = weight[channel] * scale, slope = -by * scale * scale * sums.x / count;
    const float shift = -by * sums.y / count - slope * middle;
    if (whole) {
        int image = threadIdx.x / step, rest = threadIdx.x % step;
#pragma unroll 2
        for (int i = threadIdx.x; i < images * step; i += THREADS) {
            const uint4 a = values[i], g = grads[i];
            uint4 result;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(a, j), d = at(g, j);
                reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(
                    fmaf(by, d.x, fmaf(slope, v.x, shift)), fmaf(by, d.y, fmaf(slope, v.y, shift)));
            }
            __stcs(reinterpret_cast<uint4 *>(dx + begin + image * stride) + rest, result);
            image += THREADS / step;
            rest += THREADS % step;
            if (rest >= step) {
                rest -= step;
                image++;
            }
        }
    } else {
        for (int i = threadIdx.x / 32; i < images; i += WARPS)
            for (int at = threadIdx.x % 32; at < space; at += 32) {
                const size_t place = begin + i * stride + at;
                dx[place] =
                    __float2bfloat16(fmaf(by, __bfloat162float(dy[place]), fmaf(slope, __bfloat162float(x[place]), shift)));
            }
    }
    // Nobody leaves while others may still read its sums.
    cg::this_cluster().barrier_wait();
}
