template <bool B, class T = void> struct OnlyIf {};
template <class T> struct OnlyIf<true, T> {
    typedef T type;
};
struct Doubling {
    typedef float Value;
    static constexpr float weight = 2.0f;
};
template <class A, class B> __device__ auto sum(A a, B b) -> decltype(a + b) { return a + b; }
template <class T> __device__ typename OnlyIf<sizeof(T) == 4, T>::type narrow(T x) { return x; }
template <class T> __device__ typename OnlyIf<sizeof(T) == 8, float>::type narrow(T x) { return float(x); }
template <class Operation> __device__ typename Operation::Value scaled(typename Operation::Value x)
{
    return Operation::weight * x;
}
template <class Operation>
__device__ void each(const float *a, const float *b, float *out, int n, int i = blockIdx.x * blockDim.x + threadIdx.x)
{
    if (i < n)
        out[i] = narrow(sum(scaled<Operation>(a[i]), b[i]));
}
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n) { each<Doubling>(a, b, out, n); }
