#define WARPS 8
#define OWN 2
#define PLANES 128
#define ALL 0xffffffffu

struct Weights {
    float centre, face, edge, corner;
};

// Four columns of a row and the ones beside the warp's 128, in its first and last lane.
struct Row {
    float4 v;
    float beside;
};

template <bool ALIGNED>
__device__ __forceinline__ Row load_row(const float *__restrict__ plane, int y, int x, int height, int width)
{
    Row r = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), 0.0f};
    if (y < 0 || y >= height || x >= width)
        return r;
    const float *at = plane + static_cast<size_t>(y) * width + x;
    if (ALIGNED) {
        r.v = __ldg(reinterpret_cast<const float4 *>(at));
    } else {
        r.v.x = at[0];
        r.v.y = x + 1 < width ? at[1] : 0.0f;
        r.v.z = x + 2 < width ? at[2] : 0.0f;
        r.v.w = x + 3 < width ? at[3] : 0.0f;
    }
    const int lane = threadIdx.x % 32, side = lane == 0 ? -1 : 4;
    if ((lane == 0 && x > 0) || (lane == 31 && x + 4 < width))
        r.beside = __ldg(at + side);
    return r;
}

// Of each column, the sum of its two neighbours in the row.
__device__ __forceinline__ float4 line_of(const Row &r)
{
    const int lane = threadIdx.x % 32;
    float left = __shfl_up_sync(ALL, r.v.w, 1), right = __shfl_down_sync(ALL, r.v.x, 1);
    left = lane == 0 ? r.beside : left;
    right = lane == 31 ? r.beside : right;
    return make_float4(left + r.v.y, r.v.x + r.v.z, r.v.y + r.v.w, r.v.z + right);
}

template <bool ALIGNED> __device__ __forceinline__ void store_row(float *__restrict__ at, int x, int width, const float4 &v)
{
    if (ALIGNED) {
        __stcs(reinterpret_cast<float4 *>(at), v);
        return;
    }
    at[0] = v.x;
    if (x + 1 < width)
        at[1] = v.y;
    if (x + 2 < width)
        at[2] = v.z;
    if (x + 3 < width)
        at[3] = v.w;
}

// What a cell gives to the plane before and behind (`outer`), and to its own (`own`); a cell of the rim only itself.
__device__ __forceinline__ void weigh(float mid, float side, float diagonal, bool rim, const Weights &w, float &outer,
                                      float &own)
{
    outer = rim ? 0.0f : fmaf(w.face, mid, fmaf(w.edge, side, w.corner * diagonal));
    own = rim ? mid : fmaf(w.centre, mid, fmaf(w.face, side, w.edge * diagonal));
}

__device__ __forceinline__ float4 plus(const float4 &a, const float4 &b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

template <bool ALIGNED>
__device__ __forceinline__ void march(const float *__restrict__ in, float *__restrict__ out, int depth, int height,
                                      int width, const Weights &w)
{
    const int x = blockIdx.x * 128 + threadIdx.x % 32 * 4, y = (blockIdx.y * WARPS + threadIdx.x / 32) * OWN;
    const int first = blockIdx.z * PLANES, begin = max(first - 1, 0), end = min(first + PLANES + 1, depth);
    const size_t plane = static_cast<size_t>(height) * width;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    Row ahead[OWN + 2];
    float4 before[OWN], pending[OWN];
#pragma unroll
    for (int r = 0; r < OWN + 2; r++)
        ahead[r] = load_row<ALIGNED>(in + begin * plane, y - 1 + r, x, height, width);
#pragma unroll
    for (int r = 0; r < OWN; r++)
        before[r] = pending[r] = none;
#pragma unroll 1
    for (int z = begin; z < end; z++) {
        float4 v[OWN + 2], line[OWN + 2];
#pragma unroll
        for (int r = 0; r < OWN + 2; r++) {
            v[r] = ahead[r].v;
            line[r] = line_of(ahead[r]);
            if (z + 1 < end)
                ahead[r] = load_row<ALIGNED>(in + (z + 1) * plane, y - 1 + r, x, height, width);
        }
#pragma unroll
        for (int r = 0; r < OWN; r++) {
            const float4 side = plus(line[r + 1], plus(v[r], v[r + 2])), diagonal = plus(line[r], line[r + 2]);
            const bool rim = y + r == 0 || y + r >= height - 1;
            float4 outer, own;
            weigh(v[r + 1].x, side.x, diagonal.x, rim || x == 0 || x >= width - 1, w, outer.x, own.x);
            weigh(v[r + 1].y, side.y, diagonal.y, rim || x + 1 >= width - 1, w, outer.y, own.y);
            weigh(v[r + 1].z, side.z, diagonal.z, rim || x + 2 >= width - 1, w, outer.z, own.z);
            weigh(v[r + 1].w, side.w, diagonal.w, rim || x + 3 >= width - 1, w, outer.w, own.w);
            if (x < width && y + r < height) {
                float *at = out + z * plane + static_cast<size_t>(y + r) * width + x;
                if ((z == 0 || z == depth - 1) && z >= first && z < first + PLANES)
                    store_row<ALIGNED>(at, x, width, v[r + 1]);
                if (z - 1 >= max(first, 1) && z - 1 < first + PLANES)
                    store_row<ALIGNED>(at - plane, x, width, plus(pending[r], outer));
            }
            pending[r] = plus(before[r], own);
            before[r] = outer;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    stencil(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, float centre,
            float face, float edge, float corner)
{
    const Weights w = {centre, face, edge, corner};
    if (width % 4 == 0)
        march<true>(in, out, depth, height, width, w);
    else
        march<false>(in, out, depth, height, width, w);
}
