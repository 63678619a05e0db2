"""The kernels of our plain answers to KernelBench's level 1; `kernelbench_answers` fills the capitals in."""

from __future__ import annotations

POINTWISE = {
    19: "fmaxf(v, 0.0f)",
    20: "v > 0.0f ? v : 0.01f * v",
    21: "1.0f / (1.0f + expf(-v))",
    22: "tanhf(v)",
    25: "v / (1.0f + expf(-v))",
    26: "0.5f * v * (1.0f + erff(v * 0.70710678118654752f))",
    27: "1.0507009873554805f * (v > 0.0f ? v : 1.6732632423543772f * expm1f(v))",
    28: "fminf(fmaxf(v / 6.0f + 0.5f, 0.0f), 1.0f)",
    29: "v > 20.0f ? v : log1pf(expf(v))",
    30: "v / (1.0f + fabsf(v))",
    31: "v > 0.0f ? v : expm1f(v)",
    32: "fminf(fmaxf(v, -1.0f), 1.0f)",
    88: "0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)))",
}
PRODUCT = """\
extern "C" __global__ void product(const float* a, const float* b, float* out, int rows, int columns,
                                   int terms, int a_row, int a_term, int b_term, int b_column,
                                   long long a_batch, long long b_batch, float factor) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const float* from = a + blockIdx.z * a_batch;
    const float* other = b + blockIdx.z * b_batch;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        float sum = 0.0f;
        for (int i = 0; i < terms; ++i)
            sum += from[(long long)row * a_row + (long long)i * a_term] *
                   other[(long long)i * b_term + (long long)column * b_column];
        out[((long long)blockIdx.z * rows + row) * columns + column] = KEPT ? sum * factor : 0.0f;
    }
}
"""
ROWS = """\
__device__ float all(float v, float* part, bool most) {
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = part[threadIdx.x + half];
            part[threadIdx.x] = most ? fmaxf(part[threadIdx.x], other) : part[threadIdx.x] + other;
        }
        __syncthreads();
    }
    float found = part[0];
    __syncthreads();
    return found;
}
extern "C" __global__ void rows(const float* x, float* out, int width) {
    __shared__ float part[256];
    const float* from = x + (long long)blockIdx.x * width;
    float* to = out + (long long)blockIdx.x * width;
    float most = -3.4e38f, sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, from[i]);
    most = all(most, part, true);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float v = from[i];
        sum += TERM;
    }
    sum = all(sum, part, false);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float v = from[i];
        to[i] = RESULT;
    }
}
"""
ROW_FORMS = {
    23: ("expf(v - most)", "expf(v - most) / sum"),
    24: ("expf(v - most)", "v - most - logf(sum)"),
    38: ("fabsf(v)", "v / (sum / width)"),
    39: ("v * v", "v / sqrtf(sum)"),
}
NORM = (
    ROWS.partition('extern "C"')[0]
    + """\
extern "C" __global__ void norm(const float* x, const float* weight, const float* bias, float* out, int inner,
                                int outer, int groups, int channels_each, int area, int affine) {
    __shared__ float part[256];
    int group = blockIdx.x;
    long long count = (long long)outer * inner;
    float sum = 0.0f, squares = 0.0f;
    for (long long i = threadIdx.x; i < count; i += blockDim.x)
        sum += x[((i / inner) * groups + group) * inner + i % inner];
    float mean = all(sum, part, false) / count;
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
        float d = x[((i / inner) * groups + group) * inner + i % inner] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(all(squares, part, false) / count + 1e-5f);
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
        long long at = ((i / inner) * groups + group) * inner + i % inner;
        float v = (x[at] - mean) * scale;
        long long channel = area ? (at / area) % channels_each : i % inner;
        out[at] = affine ? v * weight[channel] + bias[channel] : v;
    }
}
"""
)
ALONG = """\
extern "C" __global__ void along(const float* x, OUT* out, int outer, int length, int inner) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= outer * inner) return;
    const float* from = x + (long long)(at / inner) * length * inner + at % inner;
    float found = START;
    long long place = 0;
    for (int i = 0; i < length; ++i) {
        float v = from[(long long)i * inner];
        STEP;
    }
    out[at] = RESULT;
}
"""
ALONG_FORMS = {
    47: ("float", "0.0f", "found += v", "found"),
    48: ("float", "0.0f", "found += v", "found / length"),
    49: ("float", "from[0]", "found = fmaxf(found, v)", "found"),
    51: ("long long", "from[0]", "if (v > found) { found = v; place = i; }", "place"),
    52: ("long long", "from[0]", "if (v < found) { found = v; place = i; }", "place"),
    53: ("float", "from[0]", "found = fminf(found, v)", "found"),
}
SCAN = """\
extern "C" __global__ void scan(const float* x, MASK float* out, int rows, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    long long base = (long long)row * width;
    float found = START;
    for (int step = 0; step < width; ++step) {
        long long i = base + (BACK ? width - 1 - step : step);
        STEP;
    }
}
"""
SCAN_FORMS = {
    89: ("0.0f", "0", "found += x[i]; out[i] = found"),
    90: ("1.0f", "0", "found *= x[i]; out[i] = found"),
    91: ("0.0f", "1", "found += x[i]; out[i] = found"),
    92: ("0.0f", "0", "out[i] = found; found += x[i]"),
    93: ("0.0f", "0", "found += mask[i] ? x[i] : 0.0f; out[i] = found"),
}
LOSS = (
    ROWS.partition('extern "C"')[0]
    + """\
extern "C" __global__ void loss(const float* p, const TYPE* t, const float* q, float* sums, int rows,
                                int width) {
    __shared__ float part[256];
    float total = 0.0f;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        long long base = (long long)row * width;
        float one = 0.0f, two = 0.0f, most = -3.4e38f;
        MOST
        for (int i = threadIdx.x; i < width; i += blockDim.x) {
            long long at = base + i;
            STEP;
        }
        one = all(one, part, false);
        two = all(two, part, false);
        total += ROW;
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
extern "C" __global__ void finish(const float* sums, float* out, int count, float by) {
    __shared__ float part[256];
    float total = all(threadIdx.x < count ? sums[threadIdx.x] : 0.0f, part, false);
    if (threadIdx.x == 0) out[0] = total / by;
}
"""
)
LARGEST = """for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, p[base + i]);
        most = all(most, part, true);"""
LOSS_FORMS = {
    94: ("float", "", "float d = p[at] - t[at]; one += d * d", "one"),
    95: ("long long", LARGEST, "one += expf(p[at] - most)", "logf(one) + most - p[base + t[row]]"),
    96: ("float", "", "float d = fabsf(p[at] - t[at]); one += d < 1.0f ? 0.5f * d * d : d - 0.5f", "one"),
    100: ("float", "", "one += fmaxf(1.0f - p[at] * t[i], 0.0f)", "one"),
    98: ("float", "", "one += t[at] * (logf(t[at]) - logf(p[at]))", "one"),
    99: (
        "float",
        "",
        "float d = p[at] - t[at] + 1e-6f, e = p[at] - q[at] + 1e-6f; one += d * d; two += e * e",
        "fmaxf(sqrtf(one) - sqrtf(two) + 1.0f, 0.0f)",
    ),
}
WINDOW = """\
extern "C" __global__ void window(const float* x, WEIGHT float* out, int batch, int inputs, int d, int h,
                                  int w, int outputs, int od, int oh, int ow, int kd, int kh, int kw,
                                  int each) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)batch * outputs * od * oh * ow) return;
    int z = at % ow, y = at / ow % oh, u = at / ow / oh % od, c = at / ow / oh / od % outputs;
    int n = at / ow / oh / od / outputs;
    float found = START;
    FIRST
    for (int channel = 0; channel < CHANNELS; ++channel)
        for (int i = 0; i < kd; ++i)
            for (int j = 0; j < kh; ++j)
                for (int k = 0; k < kw; ++k) {
                    PLACE
                    if (a < 0 || a >= d || b < 0 || b >= h || e < 0 || e >= w) continue;
                    STEP;
                }
    out[at] = found;
}
"""
FORWARD = """int a = u * {s[0]} - {p[0]} + i * {l[0]}, b = y * {s[1]} - {p[1]} + j * {l[1]};
                    int e = z * {s[2]} - {p[2]} + k * {l[2]};"""
BACKWARD = """int a = u + {p[0]} - i * {l[0]}, b = y + {p[1]} - j * {l[1]}, e = z + {p[2]} - k * {l[2]};
                    if (a % {s[0]} || b % {s[1]} || e % {s[2]}) continue;
                    a /= {s[0]}; b /= {s[1]}; e /= {s[2]};"""
CONVOLVE = """found += x[((((long long)n * inputs + GROUP + channel) * d + a) * h + b) * w + e] *
                             weight[(((WEIGHT_AT) * kd + i) * kh + j) * kw + k]"""
POOL_AT = "x[((((long long)n * inputs + c) * d + a) * h + b) * w + e]"
PARTS = 132
SQUARES = (
    ROWS.partition('extern "C"')[0]
    + """\
extern "C" __global__ void squares(const float* x, float* sums, int n) {
    __shared__ float part[256];
    float sum = 0.0f;
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) sum += x[i] * x[i];
    sum = all(sum, part, false);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
extern "C" __global__ void scale(const float* x, const float* sums, float* out, int n, int count) {
    __shared__ float part[256];
    float norm = sqrtf(all(threadIdx.x < count ? sums[threadIdx.x] : 0.0f, part, false));
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = x[i] / norm;
}
"""
)
CHANNELS = """\
extern "C" __global__ void along(const float* x, float* out, int outer, int length, int inner) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= outer * inner) return;
    long long base = (long long)(at / inner) * length * inner + at % inner;
    float found = 0.0f;
    for (int i = 0; i < length; ++i) found += x[base + (long long)i * inner] * x[base + (long long)i * inner];
    float rms = sqrtf(found / length + 1e-5f);
    for (int i = 0; i < length; ++i) out[base + (long long)i * inner] = x[base + (long long)i * inner] / rms;
}
"""
