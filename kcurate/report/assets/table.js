// The table: sort, filter, search, pages. Data is inserted as text, never as markup.
"use strict";
const byId = (id) => document.getElementById(id);
const lines = JSON.parse(byId("lines").textContent);
const PAGE = 100;
const COLUMNS = [
  ["id", "pair"], ["domain", "domain"], ["techniques", "techniques"], ["origin", "origin"],
  ["outcome", "outcome"], ["speedup", "speedup", 1], ["low", "interval", 1], ["slow_us", "slow (us)", 1],
  ["fast_us", "fast (us)", 1], ["copy", "of copy", 1], ["device", "device"],
];
const state = { key: "speedup", down: true, page: 0, shown: [] };

function make(tag, text, attributes) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  return made;
}
const digits = (value, places) => (value === null || value === undefined ? "" : value.toFixed(places));

for (const line of lines) {
  line.found = [line.id, line.family, line.domain, line.techniques.join(" "), line.origin, line.outcome, line.devices.join(" "), line.license, line.text].join("\n").toLowerCase();
}

function options() {
  for (const select of document.querySelectorAll("#filters select")) {
    const counts = new Map();
    for (const line of lines) {
      for (const value of [].concat(line[select.dataset.key])) if (value) counts.set(value, (counts.get(value) || 0) + 1);
    }
    select.append(make("option", "all", { value: "" }));
    for (const value of [...counts.keys()].sort()) select.append(make("option", `${value} (${counts.get(value)})`, { value }));
  }
}

function head() {
  const row = document.querySelector("#table thead tr");
  for (const [key, name, number] of COLUMNS) {
    const cell = make("th", null, { scope: "col", "data-key": key, ...(number ? { class: "number" } : {}) });
    const button = make("button", name, { type: "button" });
    button.addEventListener("click", () => {
      state.down = state.key === key ? !state.down : Boolean(number);
      state.key = key;
      update();
    });
    cell.append(button);
    row.append(cell);
  }
  const empty = (value) => value === null || value === undefined || value.length === 0;
  const hidden = COLUMNS.map(([key], at) => (lines.every((line) => empty(line[key])) ? `#table tr > :nth-child(${at + 1})` : null));
  if (lines.length && hidden.some(Boolean)) document.head.append(make("style", `${hidden.filter(Boolean).join(", ")} { display: none; }`));
}

function wanted() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const least = parseFloat(byId("least").value);
  const picked = [...document.querySelectorAll("#filters select")].filter((one) => one.value).map((one) => [one.dataset.key, one.value]);
  return (line) =>
    words.every((word) => line.found.includes(word)) &&
    picked.every(([key, value]) => (Array.isArray(line[key]) ? line[key].includes(value) : line[key] === value)) &&
    (Number.isNaN(least) || (line.speedup !== null && line.speedup >= least));
}

function compare(one, other) {
  const [a, b] = [one[state.key], other[state.key]];
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // unknown values come last
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
  return (state.down ? -order : order) || (one.id < other.id ? -1 : 1);
}

function update() {
  state.shown = lines.filter(wanted()).sort(compare);
  state.page = 0;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(state.shown.length / PAGE));
  const rows = state.shown.slice(state.page * PAGE, (state.page + 1) * PAGE).map(row);
  document.querySelector("#table tbody").replaceChildren(...rows);
  for (const cell of document.querySelectorAll("#table thead th")) {
    if (cell.dataset.key === state.key) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
    cell.firstChild.textContent = COLUMNS.find(([key]) => key === cell.dataset.key)[1] + (cell.dataset.key === state.key ? (state.down ? " \u2193" : " \u2191") : "");
  }
  byId("count").textContent = `${state.shown.length} of ${lines.length} ${lines.length === 1 ? "pair" : "pairs"}`;
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
}

function techniques(line) {
  const cell = make("td");
  cell.append(make("div", line.techniques.join(", "), { class: "clamp", title: line.techniques.join(", ") }));
  return cell;
}

// The standing verdict's GPU, then what other devices say: `NVIDIA L4: 2.10x`, `NVIDIA L4: not_faster`.
function devices(line) {
  const cell = make("td", line.device, { class: "devices" });
  for (const [device, outcome, speedup] of line.others) {
    cell.append(make("div", `${device}: ${outcome === "confirmed" && speedup !== null ? `${digits(speedup, 2)}x` : outcome}`));
  }
  return cell;
}

const share = (value) => (value === null ? "" : `${digits(value * 100, value < 0.1 ? 2 : 0)}%`);

function row(line) {
  const made = document.createElement("tr");
  const name = make("th", null, { scope: "row" });
  name.append(make("a", line.id, { href: `#pair=${encodeURIComponent(line.id)}` }));
  made.append(name, make("td", line.domain), techniques(line), make("td", line.origin));
  made.append(make("td", line.outcome, { class: line.outcome }));
  const numbers = [
    line.speedup === null ? "" : `${digits(line.speedup, 2)}x`,
    line.low === null ? "" : `${digits(line.low, 2)} to ${digits(line.high, 2)}`,
    digits(line.slow_us, 1), digits(line.fast_us, 1), share(line.copy),
  ];
  for (const text of numbers) made.append(make("td", text, { class: "number" }));
  made.append(devices(line));
  return made;
}

function turn(by) {
  state.page += by;
  draw();
  byId("table-heading").focus();
}
