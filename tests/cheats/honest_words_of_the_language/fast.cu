#define UNROLLED(count) _Pragma("unroll")
struct Pair {
    float a, b;
};
template <class T> struct Doubled;
template <> struct Doubled<float> {
    [[nodiscard]] static __device__ __forceinline__ float of(float x) noexcept { return 2.0f * x; }
};
__device__ float taken(const Pair &pair, float Pair::*member) { return pair.*member * 1.0f; }
struct Step {
    virtual __device__ float of(float x) const = 0;
};
struct Twice : Step {
    __device__ float of(float x) const override { return Doubled<float>::of(x); }
};
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int clock = blockIdx.x * blockDim.x + threadIdx.x;
    __builtin_assume(n > 0);
    const short lane = __shfl_sync(~0u, (short)(threadIdx.x % 32), threadIdx.x % 32);
    if (clock >= n)
        goto exit;
    {
        [[maybe_unused]] const char *name = __func__;
        const Twice twice;
        const Step &step = twice;
        const Pair pair{a[clock], b[clock]};
        auto count = [kept = 0]() mutable { return ++kept; };
        float total = taken(pair, &Pair::a);
        UNROLLED(2)
        for (int half = 0; half < 2; half++)
            total += count() > 0 && lane >= 0 && __LINE__ > 0 ? step.of(taken(pair, &Pair::b)) / 2.0f : 0.0f;
        out[clock] = total;
    }
exit:
    return;
}
