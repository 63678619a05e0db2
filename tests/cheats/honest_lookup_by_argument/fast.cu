namespace algebra {
struct Pair {
    float a, b;
};
__device__ Pair operator+(Pair p, Pair q) { return {p.a + q.a, p.b + q.b}; }
__device__ Pair min(Pair p, Pair q) { return {::min(p.a, q.a), ::min(p.b, q.b)}; }
}
struct Scale {
    float by;
};
__device__ float fma(Scale s, float x, float y) { return s.by * x + y; }
template <class T> __device__ T least(T p, T q) { return min(p, q); }
__device__ float2 operator*(float2 v, Scale s) { return make_float2(v.x * s.by, v.y * s.by); }
extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const algebra::Pair shift = least(algebra::Pair{-1.0f, 3.0f} + algebra::Pair{-1.0f, 1.0f}, algebra::Pair{5.0f, -2.0f});
    const float2 v = make_float2(x[i], least(2.0f, x[i])) * Scale{1.0f};
    y[i] = fma(Scale{0.5f}, least(v.x, v.y), shift.a);
}
