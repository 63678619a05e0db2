#include <cuda_bf16.h>

#define MOST 16

typedef __nv_bfloat16 bf16;

// A block a token: each sixteen bytes are read once and stored for every choice.
extern "C" __global__ void __launch_bounds__(256)
    permute(const bf16 *__restrict__ hidden, const int *__restrict__ place, bf16 *__restrict__ out, int choices,
            int dim)
{
    __shared__ int places[MOST];
    const size_t token = blockIdx.x;
    if (dim % 8 != 0 || choices > MOST) {
        for (int c = 0; c < choices; c++) {
            const size_t to = static_cast<size_t>(place[token * choices + c]) * dim;
            for (int i = threadIdx.x; i < dim; i += blockDim.x)
                out[to + i] = hidden[token * dim + i];
        }
        return;
    }
    if (threadIdx.x < choices)
        places[threadIdx.x] = place[token * choices + threadIdx.x];
    const int groups = dim / 8;
    const uint4 *from = reinterpret_cast<const uint4 *>(hidden) + token * groups;
    uint4 *to = reinterpret_cast<uint4 *>(out);
    uint4 first = make_uint4(0, 0, 0, 0), second = first;
    if (threadIdx.x < groups)
        first = __ldcs(from + threadIdx.x);
    if (threadIdx.x + blockDim.x < groups)
        second = __ldcs(from + threadIdx.x + blockDim.x);
    __syncthreads();
    for (int i = threadIdx.x; i < groups; i += 2 * blockDim.x) {
        if (i != threadIdx.x) {
            first = __ldcs(from + i);
            if (i + blockDim.x < groups)
                second = __ldcs(from + i + blockDim.x);
        }
#pragma unroll 4
        for (int c = 0; c < choices; c++) {
            uint4 *row = to + static_cast<size_t>(places[c]) * groups;
            __stcs(row + i, first);
            if (i + blockDim.x < groups)
                __stcs(row + i + blockDim.x, second);
        }
    }
}
