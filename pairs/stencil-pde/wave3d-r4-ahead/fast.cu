// A block walks along z with a tile of the current plane (and its rim of four) in shared memory; each thread
// keeps the nine values of its own column along z in registers. What the next plane needs of global memory is on
// its way while this one is computed.
#define R 4
#define TX 32
#define TY 16
#define PLANES 64
#define W0 -2.8472222f
#define W1 1.6f
#define W2 -0.2f
#define W3 0.025396826f
#define W4 -0.0017857143f

// The rim of a plane that this thread brings, its value of the step before, and the next of its column.
struct Ahead {
    float west, east, north, south, before, below;
};

struct Place {
    int x, y, depth, height, width;
    bool exists, west, east, north, south, inner;
};

__device__ __forceinline__ Ahead load(const float *__restrict__ prev, const float *__restrict__ cur, const Place &own,
                                      int z, int last)
{
    const size_t plane = (size_t)own.height * own.width, at = z * plane + (size_t)own.y * own.width + own.x;
    const float *here = cur + at;
    const bool wanted = z < last;
    Ahead next;
    next.west = wanted && own.west ? __ldg(here - R) : 0.0f;
    next.east = wanted && own.east ? __ldg(here + TX) : 0.0f;
    next.north = wanted && own.north ? __ldg(here - R * own.width) : 0.0f;
    next.south = wanted && own.south ? __ldg(here + TY * own.width) : 0.0f;
    next.before = wanted && own.inner && z >= R && z < own.depth - R ? __ldcs(prev + at) : 0.0f;
    next.below = wanted && own.exists && z + R < own.depth ? __ldg(here + R * plane) : 0.0f;
    return next;
}

extern "C" __global__ void __launch_bounds__(TX *TY, 2)
    wave(const float *__restrict__ prev, const float *__restrict__ cur, float *__restrict__ next, int depth, int height,
         int width, float c2)
{
    __shared__ float tile[2][TY + 2 * R][TX + 2 * R];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int first = blockIdx.z * PLANES, last = min(first + PLANES, depth);
    Place own;
    own.x = blockIdx.x * TX + tx, own.y = blockIdx.y * TY + ty;
    own.depth = depth, own.height = height, own.width = width;
    own.exists = own.x < width && own.y < height;
    own.inner = own.x >= R && own.y >= R && own.x < width - R && own.y < height - R;
    own.west = tx < R && own.x >= R && own.x - R < width && own.y < height;
    own.east = tx < R && own.x + TX < width && own.y < height;
    own.north = ty < R && own.y >= R && own.y - R < height && own.x < width;
    own.south = ty < R && own.y + TY < height && own.x < width;
    const size_t plane = (size_t)height * width, at = (size_t)own.y * width + own.x;
    float queue[2 * R + 1];
#pragma unroll
    for (int i = 1; i <= 2 * R; i++) {
        const int z = first - R + i - 1;
        queue[i] = own.exists && z >= 0 && z < depth ? __ldg(cur + z * plane + at) : 0.0f;
    }
    Ahead here = load(prev, cur, own, first, last);
#pragma unroll 2
    for (int z = first; z < last; z++) {
        float(*t)[TX + 2 * R] = tile[z & 1];
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
            queue[i] = queue[i + 1];
        queue[2 * R] = here.below;
        t[ty + R][tx + R] = queue[R];
        if (tx < R) {
            t[ty + R][tx] = here.west;
            t[ty + R][tx + R + TX] = here.east;
        }
        if (ty < R) {
            t[ty][tx + R] = here.north;
            t[ty + R + TY][tx + R] = here.south;
        }
        const float before = here.before;
        here = load(prev, cur, own, z + 1, last);
        __syncthreads();
        if (!own.exists)
            continue;
        float result = queue[R];
        if (own.inner && z >= R && z < depth - R) {
            const float *c = &t[ty + R][tx + R];
            const int s = TX + 2 * R;
            float lap = 3.0f * W0 * queue[R];
            lap += W1 * (c[-1] + c[1] + c[-s] + c[s] + queue[R - 1] + queue[R + 1]);
            lap += W2 * (c[-2] + c[2] + c[-2 * s] + c[2 * s] + queue[R - 2] + queue[R + 2]);
            lap += W3 * (c[-3] + c[3] + c[-3 * s] + c[3 * s] + queue[R - 3] + queue[R + 3]);
            lap += W4 * (c[-4] + c[4] + c[-4 * s] + c[4 * s] + queue[R - 4] + queue[R + 4]);
            result = 2.0f * queue[R] - before + c2 * lap;
        }
        __stcs(next + z * plane + at, result);
    }
}
