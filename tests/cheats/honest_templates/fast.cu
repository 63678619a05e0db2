#include <cstdint>
#include <cuda/std/limits>
#include <cuda/std/type_traits>

template <int Left, class F> __device__ void repeat(F f)
{
    if constexpr (Left > 0) {
        f(16 - Left);
        repeat<Left - 1>(f);
    }
}

extern "C" __global__ void invert(const std::uint8_t *in, std::uint8_t *out, int n)
{
    static_assert(cuda::std::is_same<std::uint8_t, unsigned char>::value, "bytes");
    const int start = blockIdx.x * blockDim.x * 16 + threadIdx.x;
    repeat<16>([=](int k) {
        const int i = start + k * blockDim.x;
        if (i < n)
            out[i] = cuda::std::numeric_limits<std::uint8_t>::max() - in[i];
    });
}
