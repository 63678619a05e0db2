#include <mma.h>
using namespace nvcuda;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> Factor;
template <int N> struct Elements {
    static constexpr bool few = N < 16;
};
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float weight = Elements<Factor::num_elements>::few ? 2.0f : 1.0f;
    if (i < n)
        out[i] = weight * a[i] + b[i];
}
