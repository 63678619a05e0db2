// Highlighting of CUDA C++, and a line diff of two sides.
const WORDS = {
  keyword: "alignas alignof asm auto break case class const constexpr continue default delete do else enum extern for friend goto if inline namespace new operator private public return sizeof static static_assert struct switch template this typedef typename union using virtual volatile while __global__ __device__ __host__ __shared__ __constant__ __restrict__ __forceinline__ __noinline__ __launch_bounds__",
  type: "bool char double float half int long short signed unsigned void size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 double2 uchar4 uchar3 short2 dim3 half2 __half __half2 __nv_bfloat16",
  builtin: "threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp __shfl_sync __shfl_down_sync __shfl_up_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync __activemask __ldg __popc __clz __ffs atomicAdd atomicMax atomicMin atomicCAS atomicExch atomicOr atomicAnd fmaf fminf fmaxf sqrtf rsqrtf expf __expf logf __logf min max __threadfence __fdividef",
};
const KINDS = new Map(Object.entries(WORDS).flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind])));
const TOKEN = /(\/\/.*|\/\*.*?(?:\*\/|$))|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(\b\d[\w.]*(?:[eE][-+]\d+f?)?)|([A-Za-z_]\w*)|(^\s*#\s*\w+)/g;

function highlight(cell, text) {
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = match[1] ? "remark" : match[2] ? "string" : match[3] ? "num" : match[5] ? "rule" : KINDS.get(match[4]);
    if (!kind) continue;
    if (match.index > at) cell.append(text.slice(at, match.index));
    cell.append(make("span", match[0], { class: kind }));
    at = match.index + match[0].length;
  }
  cell.append(text.slice(at));
}

// Rows [left line or -1, right line or -1, same]: the longest common subsequence of trimmed lines.
function align(left, right) {
  const [a, b] = [left.map((line) => line.trim()), right.map((line) => line.trim())];
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) first += 1;
  let last = 0;
  while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last]) last += 1;
  const [n, m] = [a.length - first - last, b.length - first - last];
  const rows = [];
  for (let i = 0; i < first; i += 1) rows.push([i, i, true]);
  rows.push(...between(a, b, first, n, m));
  for (let i = 0; i < last; i += 1) rows.push([a.length - last + i, b.length - last + i, true]);
  return rows;
}

function between(a, b, first, n, m) {
  if (n * m > 4e6) return pair(range(first, n), range(first, m)); // too long to diff: shown as changed
  const length = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      length[i][j] = a[first + i] === b[first + j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const rows = [];
  let [gone, made, i, j] = [[], [], 0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && a[first + i] === b[first + j]) {
      rows.push(...pair(gone, made), [first + i, first + j, true]);
      [gone, made, i, j] = [[], [], i + 1, j + 1];
    } else if (j >= m || (i < n && length[i + 1][j] >= length[i][j + 1])) {
      gone.push(first + i);
      i += 1;
    } else {
      made.push(first + j);
      j += 1;
    }
  }
  return rows.concat(pair(gone, made));
}

const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
const pair = (gone, made) => range(0, Math.max(gone.length, made.length)).map((k) => [gone[k] ?? -1, made[k] ?? -1, false]);

function diffTable(slow, fast) {
  const [left, right] = [slow.replace(/\n$/, "").split("\n"), fast.replace(/\n$/, "").split("\n")];
  const table = make("table", null, { class: "diff" });
  const columns = document.createElement("colgroup");
  for (const kind of ["at", "", "at", ""]) columns.append(make("col", null, { class: kind }));
  const head = make("thead");
  head.append(make("tr"));
  for (const name of ["slow", "fast"]) head.firstChild.append(make("th", name, { scope: "colgroup", colspan: "2" }));
  const body = make("tbody");
  for (const [i, j, same] of align(left, right)) {
    const made = make("tr");
    for (const [at, text, kind] of [[i, left[i], "gone"], [j, right[j], "new"]]) {
      const mark = at < 0 ? "none" : same ? "" : kind;
      made.append(make("td", at < 0 ? "" : String(at + 1), { class: `at ${mark}` }));
      const cell = make("td", null, { class: `code ${mark}` });
      if (at >= 0) highlight(cell, text);
      made.append(cell);
    }
    body.append(made);
  }
  table.append(make("caption", "The two codes side by side", { class: "quiet" }), columns, head, body);
  return table;
}
