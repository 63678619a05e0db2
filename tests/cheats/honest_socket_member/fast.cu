#define sleep(i) (i) < n
#define LOAD(fopen, i) fopen[i]
struct Pair {
    float socket, kill;
    __device__ float open(float scale) const { return socket + scale * kill; }
};
template <int creat> __device__ float scaled(const Pair &fgets) { return fgets.open(float(creat)); }
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (sleep(i))
        out[i] = scaled<2>(Pair{LOAD(a, i), LOAD(b, i)});
}
