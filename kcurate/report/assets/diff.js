// Highlighting of CUDA C++, and a line diff of two sides.
const WORDS = {
  keyword: "alignas alignof asm auto break case class const constexpr continue default delete do else enum extern for friend goto if inline namespace new operator private public return sizeof static static_assert struct switch template this typedef typename union using virtual volatile while __global__ __device__ __host__ __shared__ __constant__ __restrict__ __forceinline__ __noinline__ __launch_bounds__",
  type: "bool char double float half int long short signed unsigned void size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 double2 uchar4 uchar3 short2 dim3 half2 __half __half2 __nv_bfloat16",
  builtin: "threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp __shfl_sync __shfl_down_sync __shfl_up_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync __activemask __ldg __popc __clz __ffs atomicAdd atomicMax atomicMin atomicCAS atomicExch atomicOr atomicAnd fmaf fminf fmaxf sqrtf rsqrtf expf __expf logf __logf min max __threadfence __fdividef",
};
const KINDS = new Map(Object.entries(WORDS).flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind])));
const TOKEN = /(\/\/.*|\/\*.*?(?:\*\/|$))|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(\b\d[\w.]*(?:[eE][-+]\d+f?)?)|([A-Za-z_]\w*)|(^\s*#\s*\w+)/g;

// What extraction adds: a template's instance, and names that a header would define (`standalone/shim.py`).
const ADDED = /^(template __global__ decltype\(|#undef ([A-Z]+_(MAX|MIN|BIT|EPSILON)|M_\w+|INFINITY|NAN|cuda\w+)$)/;

function highlight(cell, text) {
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = match[1] ? "remark" : match[2] ? "string" : match[3] ? "num" : match[5] ? "rule" : KINDS.get(match[4]);
    if (!kind) continue;
    if (match.index > at) cell.append(text.slice(at, match.index));
    cell.append(make("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  cell.append(text.slice(at));
  if (ADDED.test(text)) cell.append(make("small", { class: "added" }, "added by kcurate, so that it compiles by itself"));
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

// Longer runs of equal lines are folded, with `CONTEXT` lines beside each change; a longer table is cut.
const CONTEXT = 3, MOST_LINES = 60, NARROW = "(max-width: 760px)";

// In one column a run of lines that are gone stands before those that are new.
function inOneColumn(rows) {
  const ordered = [];
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && !rows[end][2]) end += 1;
    ordered.push(...rows.slice(at, end).filter(([i]) => i >= 0).map(([i]) => [i, -1, false]));
    ordered.push(...rows.slice(at, end).filter(([, j]) => j >= 0).map(([, j]) => [-1, j, false]));
    if (end < rows.length) ordered.push(rows[end]);
    at = end + 1;
  }
  return ordered;
}

// Rows, and in place of a long run of equal ones the rows that it hides, as one array.
function folded(rows) {
  const near = rows.map(() => false);
  rows.forEach(([, , same], at) => same || near.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1));
  const shown = [];
  for (let at = 0; at < rows.length; at += 1) {
    if (near[at]) shown.push(rows[at]);
    else if (at && !near[at - 1]) shown[shown.length - 1].hides.push(rows[at]);
    else shown.push({ hides: [rows[at]] });
  }
  return shown.flatMap((row) => (row.hides && row.hides.length <= CONTEXT ? row.hides : [row]));
}

function diffTable(slow, fast) {
  const [left, right] = [slow, fast].map((code) => code.replace(/\n$/, "").split("\n"));
  const single = matchMedia(NARROW).matches;
  const rows = align(left, right);
  const body = make("tbody");
  const line = ([i, j, same]) => make("tr", {}, single ? lineOf(i, j, same) : [...half(i, left, same ? "" : "gone"), ...half(j, right, same ? "" : "new")]);
  const lineOf = (i, j, same) => (i >= 0 ? half(i, left, same ? "" : "gone", same ? "" : "\u2212") : half(j, right, "new", "+"));
  const width = single ? 2 : 4;
  const opener = (hidden, text) => {
    const button = make("button", { type: "button" }, text);
    const place = make("tr", { class: "fold" }, make("td", { colspan: width }, button));
    button.addEventListener("click", () => place.replaceWith(...hidden.flatMap(rowsOf)));
    return place;
  };
  const rowsOf = (row) => [row.hides ? opener(row.hides, `${row.hides.length} equal lines`) : line(row)];
  const shown = folded(single ? inOneColumn(rows) : rows);
  const end = shown.length > MOST_LINES + 20 ? MOST_LINES : shown.length;
  body.append(...shown.slice(0, end).flatMap(rowsOf));
  if (end < shown.length) body.append(opener(shown.slice(end), `Show the other ${shown.length - end} lines`));
  const columns = make("colgroup", {}, (single ? ["at", ""] : ["at", "", "at", ""]).map((kind) => make("col", { class: kind })));
  const heads = single ? ["\u2212 slow, + fast"] : ["slow", "fast"];
  return make("table", { class: "diff" }, columns, make("thead", {}, make("tr", {}, heads.map((name) => make("th", { scope: "colgroup", colspan: "2" }, name)))), body);
}

function half(at, code, kind, sign) {
  const mark = at < 0 ? "none" : kind;
  const cell = make("td", { class: `code ${mark}` });
  if (at >= 0) highlight(cell, code[at]);
  return [make("td", { class: `at ${mark}` }, at < 0 ? "" : `${sign ?? ""}${at + 1}`), cell];
}
