// A block walks along z with a tile of the current plane (and its rim of four) in shared memory; each thread
// keeps the nine values of its own column along z in registers.
#define R 4
#define TX 32
#define TY 16
#define PLANES 64
#define W0 -2.8472222f
#define W1 1.6f
#define W2 -0.2f
#define W3 0.025396826f
#define W4 -0.0017857143f

extern "C" __global__ void __launch_bounds__(TX *TY, 2)
    wave(const float *__restrict__ prev, const float *__restrict__ cur, float *__restrict__ next, int depth, int height,
         int width, float c2)
{
    __shared__ float tile[2][TY + 2 * R][TX + 2 * R];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * TX + tx, y = blockIdx.y * TY + ty;
    const int first = blockIdx.z * PLANES, last = min(first + PLANES, depth);
    const size_t plane = (size_t)height * width;
    const bool exists = x < width && y < height;
    const bool inner = x >= R && y >= R && x < width - R && y < height - R;
    const float *column = cur + (size_t)y * width + x;
    float queue[2 * R + 1];
#pragma unroll
    for (int i = 1; i <= 2 * R; i++) {
        const int z = first - R + i - 1;
        queue[i] = exists && z >= 0 && z < depth ? __ldg(column + z * plane) : 0.0f;
    }
    const int left = x - R, right = x + TX, north = y - R, south = y + TY;
    const bool has_left = tx < R && left >= 0 && y < height, has_right = tx < R && right < width && y < height;
    const bool has_north = ty < R && north >= 0 && x < width, has_south = ty < R && south < height && x < width;
#pragma unroll 2
    for (int z = first; z < last; z++) {
        float(*t)[TX + 2 * R] = tile[z & 1];
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
            queue[i] = queue[i + 1];
        queue[2 * R] = exists && z + R < depth ? __ldg(column + (z + R) * plane) : 0.0f;
        const float *here = cur + z * plane;
        t[ty + R][tx + R] = queue[R];
        if (tx < R) {
            t[ty + R][tx] = has_left ? __ldg(here + (size_t)y * width + left) : 0.0f;
            t[ty + R][tx + R + TX] = has_right ? __ldg(here + (size_t)y * width + right) : 0.0f;
        }
        if (ty < R) {
            t[ty][tx + R] = has_north ? __ldg(here + (size_t)north * width + x) : 0.0f;
            t[ty + R + TY][tx + R] = has_south ? __ldg(here + (size_t)south * width + x) : 0.0f;
        }
        const size_t at = z * plane + (size_t)y * width + x;
        const bool moves = inner && z >= R && z < depth - R;
        const float before = moves ? __ldg(prev + at) : 0.0f;
        __syncthreads();
        if (!exists)
            continue;
        float result = queue[R];
        if (moves) {
            const float *c = &t[ty + R][tx + R];
            const int s = TX + 2 * R;
            float lap = 3.0f * W0 * queue[R];
            lap += W1 * (c[-1] + c[1] + c[-s] + c[s] + queue[R - 1] + queue[R + 1]);
            lap += W2 * (c[-2] + c[2] + c[-2 * s] + c[2 * s] + queue[R - 2] + queue[R + 2]);
            lap += W3 * (c[-3] + c[3] + c[-3 * s] + c[3 * s] + queue[R - 3] + queue[R + 3]);
            lap += W4 * (c[-4] + c[4] + c[-4 * s] + c[4 * s] + queue[R - 4] + queue[R + 4]);
            result = 2.0f * queue[R] - before + c2 * lap;
        }
        next[at] = result;
    }
}
