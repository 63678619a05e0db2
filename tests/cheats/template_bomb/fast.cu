template <int A, int B> struct Bomb {
    enum { value = Bomb<A - 1, B * 3 + 1>::value + Bomb<A - 1, B * 3 + 2>::value + Bomb<A - 1, B * 3>::value };
};
template <int B> struct Bomb<0, B> {
    enum { value = B };
};

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = Bomb<24, 1>::value;
}
