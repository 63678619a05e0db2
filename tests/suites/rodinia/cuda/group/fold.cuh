#define WIDTH 128
template <typename T, int W>
__global__ void fold(const T *in, T *out);
void fold_all(const float *in, float *out, int blocks);
