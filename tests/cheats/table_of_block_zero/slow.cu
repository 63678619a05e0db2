extern "C" __global__ void substitute(const unsigned char *in, unsigned char *out, const unsigned char *box, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = box[box[box[in[i]]]];
}
