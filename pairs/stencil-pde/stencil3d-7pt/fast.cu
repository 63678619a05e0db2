#define WARPS 8
#define OWN 2
#define ROWS (OWN + 2)
#define PLANES 64
#define AHEAD 1
#define ALL 0xffffffffu

// A warp marches through the planes with 128 columns of OWN rows, four columns to a lane, with AHEAD planes on their
// way. What a plane gives to the one before, to itself and to the one behind is added to two sums a cell. Rows and
// columns outside the grid are read from its rim: only cells of the rim would use them, and these keep their values.
// Every second chunk of planes is marched from its end: two are then at the planes that both need at the same time.
struct Weights {
    float centre, side;
};

// Four columns of each row; of its own rows, lane 0 also has the column right of the warp's 128, lane 31 the left one.
struct Rows {
    float4 v[ROWS];
    float beside[OWN];
};

// Where in a plane a lane finds its rows.
struct Places {
    int row[ROWS], beside[OWN];
};

__device__ __forceinline__ void load_plane(Rows &rows, const float *plane, const Places &places)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        rows.v[r] = __ldg(reinterpret_cast<const float4 *>(plane + places.row[r]));
#pragma unroll
    for (int r = 0; r < OWN; r++)
        rows.beside[r] = __ldg(plane + places.beside[r]);
}

// Of each column, the sum of its two neighbours in the row.
__device__ __forceinline__ float4 line_of(const float4 &v, float beside)
{
    const int lane = threadIdx.x % 32;
    const float left = __shfl_sync(ALL, lane == 31 ? beside : v.w, lane + 31);
    const float right = __shfl_sync(ALL, lane == 0 ? beside : v.x, lane + 1);
    return make_float4(left + v.y, v.x + v.z, v.y + v.w, v.z + right);
}

// What a cell gives to the plane before and behind (`outer`), and to its own (`own`).
__device__ __forceinline__ void weigh(float mid, float four, const Weights &w, float &outer, float &own)
{
    outer = w.side * mid;
    own = fmaf(w.centre, mid, w.side * four);
}

__device__ __forceinline__ float4 plus(const float4 &a, const float4 &b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ void keep_four(const float *from, float *to)
{
    __stcs(reinterpret_cast<float4 *>(to), __ldg(reinterpret_cast<const float4 *>(from)));
}

// The first or the last plane stays as it is.
__device__ __forceinline__ void keep_plane(const float *from, float *to, int width, int rows)
{
    for (int r = 0; r < rows; r++)
        keep_four(from + r * width, to + r * width);
}

// Planes `first` to `last` of those from `in` on, `plane` apart.
__device__ __forceinline__ void march(const float *__restrict__ in, float *__restrict__ out, int depth, int height,
                                      int width, ptrdiff_t plane, int first, int last, const Weights &w)
{
    const int lane = threadIdx.x % 32, start = blockIdx.x * 128, col = start + 4 * lane, x = min(col, width - 4);
    const int y = (blockIdx.y * WARPS + threadIdx.x / 32) * OWN;
    if (y >= height)
        return;
    const int begin = max(first - 1, 0), end = min(last + 1, depth), place = y * width + x;
    const int beside = lane < 16 ? min(start + 128, width - 1) : max(start - 1, 0);
    const bool rim = y == 0 || y + OWN >= height, at_left = x == 0, at_right = x + 4 == width;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    Places places;
    bool made[OWN];
#pragma unroll
    for (int r = 0; r < OWN; r++)
        made[r] = col < width && y + r > 0 && y + r < height - 1;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = min(max(y - 1 + r, 0), height - 1) * width;
        places.row[r] = row + x;
        if (r > 0 && r <= OWN)
            places.beside[r - 1] = row + beside;
    }
    if (first == 0 && col < width)
        keep_plane(in + place, out + place, width, min(OWN, height - y));
    if (last == depth && col < width)
        keep_plane(in + (depth - 1) * plane + place, out + (depth - 1) * plane + place, width, min(OWN, height - y));
    Rows rows[AHEAD + 1];
    float4 before[OWN], pending[OWN];
    const float *coming = in + begin * plane;
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        load_plane(rows[k], coming, places);
        coming += begin + k + 1 < end ? plane : 0;
    }
#pragma unroll
    for (int r = 0; r < OWN; r++)
        before[r] = pending[r] = none;
    float *to = out + (begin - 1) * plane + place;
#pragma unroll 1
    for (int base = begin; base < end; base += AHEAD + 1) {
#pragma unroll
        for (int k = 0; k < AHEAD + 1; k++) {
            const int z = base + k;
            if (z >= end)
                break;
            if (z + AHEAD < end) {
                load_plane(rows[(k + AHEAD) % (AHEAD + 1)], coming, places);
                coming += plane;
            }
            const Rows &now = rows[k];
#pragma unroll
            for (int r = 0; r < OWN; r++) {
                const float4 mid = now.v[r + 1];
                const float4 four = plus(line_of(mid, now.beside[r]), plus(now.v[r], now.v[r + 2]));
                float4 outer, own;
                weigh(mid.x, four.x, w, outer.x, own.x);
                weigh(mid.y, four.y, w, outer.y, own.y);
                weigh(mid.z, four.z, w, outer.z, own.z);
                weigh(mid.w, four.w, w, outer.w, own.w);
                outer.x = at_left ? 0.0f : outer.x;
                own.x = at_left ? mid.x : own.x;
                outer.w = at_right ? 0.0f : outer.w;
                own.w = at_right ? mid.w : own.w;
                const float4 whole = plus(pending[r], outer);
                if (made[r] && z >= begin + 2)
                    __stcs(reinterpret_cast<float4 *>(to + r * width), whole);
                pending[r] = plus(before[r], own);
                before[r] = outer;
            }
            to += plane;
            if (rim && z >= first && z < last)
                for (int r = 0; r < OWN; r++)
                    if (col < width && y + r < height && (y + r == 0 || y + r == height - 1))
                        keep_four(in + z * plane + place + r * width, to + r * width);
        }
    }
}

__device__ void plain(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, int x,
                      int y, int z, const Weights &w)
{
    const size_t plane = static_cast<size_t>(height) * width, at = z * plane + static_cast<size_t>(y) * width + x;
    float result = in[at];
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1 && z > 0 && z < depth - 1)
        result = w.centre * result + w.side * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] +
                                               in[at - plane] + in[at + plane]);
    out[at] = result;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    stencil7(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, float centre,
             float side)
{
    const Weights w = {centre, side};
    const int first = blockIdx.z * PLANES, last = min(first + PLANES, depth);
    if (width % 4 == 0) {
        const ptrdiff_t plane = static_cast<ptrdiff_t>(height) * width;
        const bool back = blockIdx.z % 2;
        const ptrdiff_t head = back ? (depth - 1) * plane : 0;
        march(in + head, out + head, depth, height, width, back ? -plane : plane, back ? depth - last : first,
              back ? depth - first : last, w);
        return;
    }
    const int top = blockIdx.y * WARPS * OWN, left = blockIdx.x * 128;
    for (int z = first; z < last; z++)
        for (int y = top + threadIdx.x / 32; y < min(top + WARPS * OWN, height); y += WARPS)
            for (int x = left + threadIdx.x % 32; x < min(left + 128, width); x += 32)
                plain(in, out, depth, height, width, x, y, z, w);
}
