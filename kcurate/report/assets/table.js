// The table: sort, filter, search, pages; all of it stands in the address. Data is inserted as text, never as markup.
"use strict";
const byId = (id) => document.getElementById(id);
const lines = JSON.parse(byId("lines").textContent);
const PAGE = 100;
// `wide`: the column is left out where there is less room: 1 first, then 2.
const COLUMNS = [
  { key: "id", name: "pair" },
  { key: "domain", name: "domain", wide: 1 },
  { key: "techniques", name: "techniques", wide: 2, cell: (line) => line.techniques.join(", ") },
  { key: "origin", name: "origin", wide: 1 },
  { key: "outcome", name: "outcome", cell: (line) => words(line.outcome) },
  { key: "why", name: "what was found", wide: 2 },
  { key: "speedup", name: "speedup", unit: "times as fast" },
  { key: "slow_us", name: "slow", unit: "microseconds", wide: 2, cell: (line) => three(line.slow_us) },
  { key: "fast_us", name: "fast", unit: "microseconds", wide: 2, cell: (line) => three(line.fast_us) },
  { key: "copy", name: "of copy", unit: "bandwidth", wide: 1, cell: (line) => percent(line.copy) },
  { key: "device", name: "device", wide: 1 },
];
// Controls whose values stand in the address, under their ids.
const CONTROLS = ["search", "domain", "technique", "origin", "outcome", "device", "least", "of", "by"];
const state = { key: "", down: true, page: 0, shown: [], theme: "" };
const measured = lines.some((line) => line.speedup !== null);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}
const words = (name) => name.replaceAll("_", " ");
const three = (value) => (value === null || value === undefined ? "" : value.toLocaleString("en-US", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 }));
const percent = (value) => (value === null ? "" : `${three(value * 100)}%`);
const middle = (sorted, share) => {
  const at = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return low + (high - low) * (at - Math.floor(at));
};
const ascending = (values) => values.sort((a, b) => a - b);

for (const line of lines) {
  line.text_of_all = [line.id, line.family, line.domain, line.techniques.join(" "), line.origin, line.outcome, line.devices.join(" "), line.license, line.text].join("\n").toLowerCase();
}

// The address: what is not at its default. `changes` replace values; null removes one.
function address(changes) {
  const values = new URLSearchParams();
  for (const id of CONTROLS) if (byId(id).value && byId(id).value !== byId(id).dataset.first) values.set(id, byId(id).value);
  const sort = (state.down ? "-" : "") + state.key;
  if (sort !== firstSort()) values.set("sort", sort);
  if (state.page) values.set("page", state.page + 1);
  if (state.theme) values.set("theme", state.theme);
  for (const [name, value] of Object.entries(changes || {})) value === null ? values.delete(name) : values.set(name, value);
  return `#${values}`;
}
const firstSort = () => (measured ? "-speedup" : "id");
const asked = () => new URLSearchParams(location.hash.slice(1));

function restore() {
  const values = asked();
  for (const id of CONTROLS) byId(id).value = values.get(id) ?? byId(id).dataset.first ?? "";
  for (const select of document.querySelectorAll("select")) if (select.selectedIndex < 0) select.selectedIndex = 0;
  const sort = values.get("sort") ?? firstSort();
  state.down = sort.startsWith("-");
  state.key = COLUMNS.some(({ key }) => key === sort.replace("-", "")) ? sort.replace("-", "") : "id";
  if (["light", "dark"].includes(values.get("theme"))) document.documentElement.dataset.theme = state.theme = values.get("theme");
  filter(parseInt(values.get("page") || "1", 10) - 1);
}

// A column or a filter that would say the same of every pair is left out.
const differs = (key) => new Set(lines.map((line) => String(line[key] ?? ""))).size > 1;
const empty = (key) => lines.every((line) => line[key] === null || line[key].length === 0);

function options() {
  for (const select of document.querySelectorAll("#filters select")) {
    const counts = new Map();
    for (const line of lines) {
      for (const value of [].concat(line[select.dataset.key])) if (value) counts.set(value, (counts.get(value) || 0) + 1);
    }
    select.append(make("option", { value: "" }, "all"));
    for (const value of [...counts.keys()].sort()) select.append(make("option", { value }, `${words(value)} (${counts.get(value)})`));
    select.parentElement.hidden = counts.size < 2;
  }
  byId("least").parentElement.hidden = !measured;
}

function head() {
  const left_out = [];
  COLUMNS.forEach((column, at) => {
    const cell = make("th", { scope: "col", "data-key": column.key, class: classes(column) }, make("button", { type: "button" }, column.name), column.unit ? make("small", {}, column.unit) : null);
    cell.firstChild.addEventListener("click", () => {
      state.down = state.key === column.key ? !state.down : Boolean(column.unit);
      state.key = column.key;
      update();
    });
    document.querySelector("#table thead tr").append(cell);
    const kept = ["id", "speedup", measured ? "" : "outcome"];
    const same = lines.length > 1 && !kept.includes(column.key) && !differs(column.key);
    if (lines.length && (same || empty(column.key))) left_out.push(`#table tr > :nth-child(${at + 1})`);
  });
  if (left_out.length) document.head.append(make("style", {}, `${left_out.join(", ")} { display: none; }`));
}
const classes = (column) => [column.unit ? "number" : "", column.wide ? `wide${column.wide}` : ""].join(" ").trim();

function wanted() {
  const terms = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const least = parseFloat(byId("least").value);
  const picked = [...document.querySelectorAll("#filters select")].filter((select) => select.value).map((select) => [select.dataset.key, select.value]);
  return (line) =>
    terms.every((term) => line.text_of_all.includes(term)) &&
    picked.every(([key, value]) => (Array.isArray(line[key]) ? line[key].includes(value) : line[key] === value)) &&
    (Number.isNaN(least) || (line.speedup !== null && line.speedup >= least));
}

function compare(left, right) {
  const [a, b] = [left[state.key], right[state.key]];
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // unknown values come last
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
  return (state.down ? -order : order) || (left.id < right.id ? -1 : 1);
}

function filter(page) {
  state.shown = lines.filter(wanted()).sort(compare);
  state.page = Math.min(Math.max(0, page || 0), Math.max(0, Math.ceil(state.shown.length / PAGE) - 1));
  draw();
  drawPlot();
}

function update() {
  filter(0);
  history.replaceState(null, "", address());
}

function draw() {
  const pages = Math.max(1, Math.ceil(state.shown.length / PAGE));
  document.querySelector("#table tbody").replaceChildren(...state.shown.slice(state.page * PAGE, (state.page + 1) * PAGE).map(row));
  for (const cell of document.querySelectorAll("#table thead th")) {
    const sorted = cell.dataset.key === state.key;
    if (sorted) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
    cell.firstChild.textContent = COLUMNS.find(({ key }) => key === cell.dataset.key).name + (sorted ? (state.down ? " \u2193" : " \u2191") : "");
  }
  byId("count").textContent = `${state.shown.length} of ${lines.length} ${lines.length === 1 ? "pair" : "pairs"}`;
  const ratios = ascending(state.shown.filter((line) => line.outcome === "confirmed" && line.speedup !== null).map((line) => line.speedup));
  byId("spread").textContent = ratios.length ? `: median speedup ${three(middle(ratios, 0.5))}, from ${three(ratios[0])} to ${three(ratios[ratios.length - 1])}` : "";
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
  byId("next").parentElement.hidden = pages === 1;
}

const link = (line) => make("a", { href: address({ pair: line.id }) }, line.id.split("/").flatMap((part, at) => (at ? ["/", make("wbr"), part] : [part])));

function row(line) {
  const cells = COLUMNS.map((column) => {
    if (column.key === "id") return make("th", { scope: "row" }, link(line), line.files ? make("small", {}, line.files) : null);
    const cell = make("td", { class: classes(column) }, column.cell ? column.cell(line) : column.key === "speedup" ? "" : line[column.key]);
    if (column.key === "outcome") {
      cell.classList.add(line.outcome.replace(" ", "_"));
      if (line.outdated) cell.append(make("small", {}, line.outdated));
    }
    if (column.key === "speedup" && line.speedup !== null) cell.append(three(line.speedup), make("small", {}, `${three(line.low)} to ${three(line.high)}`));
    // What other devices say: `NVIDIA L4: 2.10 times`, `NVIDIA L4: not faster`.
    if (column.key === "device") for (const [device, outcome, speedup] of line.others) cell.append(make("small", {}, `${device}: ${outcome === "confirmed" && speedup !== null ? `${three(speedup)} times` : words(outcome)}`));
    return cell;
  });
  return make("tr", {}, cells);
}

function turn(by) {
  state.page += by;
  draw();
  history.replaceState(null, "", address());
  byId("table-heading").focus();
}
