// A pair's own page, opened by `pair=ID` in the address; keyboard shortcuts, and start-up.
let parts = null;
let opened = "";

// Parts are deflated in groups, in the order of the lines.
async function partOf(at) {
  parts = parts || JSON.parse(byId("parts").textContent);
  const bytes = Uint8Array.from(atob(parts.packed[Math.floor(at / parts.group)]), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(inflated).text())[at % parts.group];
}

async function open(id) {
  const at = lines.findIndex((line) => line.id === id);
  if (at < 0) return close();
  const [line, part] = [lines[at], await partOf(at)];
  if (asked().get("pair") !== id) return;
  opened = id;
  const article = byId("pair");
  const best = part.verdicts.find((verdict) => verdict.standing) || null;
  const sections = [
    ["why", best && !best.speedup && !best.emulated ? "Why" : "Why it is faster", why(line, part, best)],
    ["diff", "What differs", [diffTable(part.slow, part.fast)]],
    ["code", "Code", ["slow", "fast"].map((side) => folder(`${side} side`, source(part[side])))],
    ["launches", "Launches and problem", [part.inferred ? make("p", {}, part.inferred) : null, folder(part.launches[0], text(part.slow_plan)), folder(part.launches[1], text(part.fast_plan)), folder("problem", text(part.problem))]],
    ["verdicts", "Verdicts", verdicts(part.verdicts)],
    ["counters", "Counters", Object.entries(part.profiles).map(([device, rows]) => folder(`all counters on ${device}`, table(["counter", "slow", "fast"], rows)))],
    ["origin", "Origin", [terms({ family: line.id.endsWith(`/${line.family}`) ? "" : line.family, domain: line.domain === "unclassified" ? "" : line.domain, techniques: line.techniques.join(", "), licence: line.license, ...part.origin })]],
  ].filter(([, , inside]) => inside.length);
  const contents = make("nav", { class: "contents", "aria-label": "Contents" }, make("ul", {}, sections.map(([key, name]) => make("li", {}, make("a", { href: address({ pair: id, part: key }) }, name)))));
  const heading = make("h2", { id: "pair-heading", tabindex: "-1" }, id);
  article.replaceChildren(make("a", { id: "back", href: address() }, "Back to the table"), heading, said(line, best), make("p", { class: "outdated" }, line.outdated ? sentence(line.outdated) : ""), make("p", {}, line.text), contents,
    ...sections.map(([key, name, inside]) => make("section", { "aria-labelledby": `part-${key}` }, make("h3", { id: `part-${key}`, tabindex: "-1" }, name), make("div", { class: "wide" }, inside))));
  byId("overview").hidden = true;
  article.hidden = false;
  document.title = `${id}: kcurate`;
  window.scrollTo(0, 0);
  heading.focus();
}

function close() {
  byId("pair").hidden = true;
  byId("overview").hidden = false;
  document.title = "kcurate: CUDA kernel pairs";
  drawPlot(); // its width was unknown while it was hidden
  const back = [...document.querySelectorAll("#table tbody a")].find((anchor) => anchor.textContent === opened);
  if (back && document.activeElement !== byId("search")) back.focus();
  opened = "";
}

// The verdict in words, then the speedup with its interval and both times.
function said(line, best) {
  const badge = make("strong", { class: line.outcome.replace(" ", "_") }, words(line.outcome));
  if (!best) return make("p", { class: "said" }, badge, make("span", {}, `kcurate validate judges it${line.outcome === "stale" ? " again" : ""}.`));
  if (!best.speedup) {
    const times = best.emulated && best.outcome === "correct" ? "Both sides give the same results on the emulator, which takes no times: kcurate validate on a GPU measures the speedup." : `${best.sentence}${best.side ? ` (${best.side} side)` : ""}: ${best.detail}`;
    return make("p", { class: "said" }, badge, make("span", {}, times), make("span", {}, best.device));
  }
  const [ratio, low, high] = best.speedup;
  return make("p", { class: "said" }, badge, make("strong", {}, `${three(ratio)} times as fast`), make("span", {}, `${three(low)} to ${three(high)} with ${three(best.confidence * 100).replace(/\.0+$/, "")}% confidence`),
    make("span", {}, `${three(best.slow.us)} \u2192 ${three(best.fast.us)} microseconds on ${best.device}`));
}

function why(line, part, best) {
  const inside = [];
  if (part.why.length) inside.push(table(["counter", "slow", "fast", "change", "expected from"], part.why));
  if (line.copy !== null) inside.push(make("p", {}, `The fast side reaches ${percent(line.copy)} of the bandwidth that a copy has on this GPU.`));
  if (best && best.log) inside.push(text(best.log));
  if (best && best.speedup && !part.why.length) inside.push(make("p", {}, "No counter of both sides is on file that changed as the techniques predict; kcurate profile counts them on a GPU."));
  return inside;
}

function table(heads, rows) {
  return make("table", { class: "list" }, make("thead", {}, make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first), others.map((value, at) => make("td", { "data-label": heads[at + 1] }, value))))));
}

const folder = (name, ...inside) => make("details", {}, make("summary", {}, name), inside);
const text = (content) => make("pre", { tabindex: "0" }, content);

function source(code) {
  const shown = text("");
  code.split("\n").forEach((line) => {
    highlight(shown, line);
    shown.append("\n");
  });
  return shown;
}

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

function terms(data) {
  return make("dl", {}, Object.entries(data).filter(([, value]) => value !== "").map(([name, value]) => [make("dt", {}, words(name)), make("dd", {}, value)]));
}

function verdicts(all) {
  if (!all.length) return [make("p", {}, "This pair has not been judged yet.")];
  const rows = all.map((verdict) => [
    verdict.device,
    make("span", { class: verdict.outcome }, words(verdict.outcome), verdict.current ? "" : " (earlier code or rules)"),
    verdict.speedup ? `${three(verdict.speedup[0])} (${three(verdict.speedup[1])} to ${three(verdict.speedup[2])})` : "",
    ...["slow", "fast"].map((side) => (verdict[side] ? three(verdict[side].us) : "")),
    verdict.speedup ? "" : verdict.detail,
  ]);
  const heads = ["device", "outcome", "speedup", "slow, microseconds", "fast, microseconds", "what was found"];
  const used = heads.map((_, at) => rows.some((row) => row[at] !== ""));
  const [first, ...others] = [heads, ...rows].map((row) => row.filter((_, at) => used[at]));
  return [table(first, others), ...all.map(details)];
}

function details(verdict) {
  const used = ["slow", "fast"].flatMap((side) => ((verdict[side] && verdict[side].kernels) || []).map(({ kernel, ...rest }) =>
    [`${side}: ${kernel}`, Object.entries(rest).map(([name, value]) => (name.endsWith("_bytes") ? `${value.toLocaleString("en-US")} bytes ${name.replace("_bytes", "")}` : `${value} ${words(name)}`)).join(", ")]).filter(([, resources]) => resources));
  return folder(`${verdict.device}${verdict.current ? "" : ", earlier"}: checks, kernels, environment`, verdict.checks.length ? folder("what was checked", terms(Object.fromEntries(verdict.checks.map((name) => [name, parts.checks[name] || "passed"])))) : null,
    used.length ? table(["kernel", "resources of a block or thread"], used) : null, verdict.log ? text(verdict.log) : null, terms(verdict.environment));
}

// Links that were made before the theme was chosen do not name it.
function keepTheme(values) {
  if (!state.theme || values.get("theme") === state.theme) return;
  values.set("theme", state.theme);
  history.replaceState(null, "", `#${values}`);
}

function route() {
  const values = asked(), id = values.get("pair");
  restore();
  keepTheme(values);
  if (!id) {
    if (!byId("pair").hidden) close();
    return;
  }
  Promise.resolve(opened === id && !byId("pair").hidden ? null : open(id)).then(() => {
    const heading = values.get("part") && byId(`part-${values.get("part")}`);
    if (!heading) return;
    for (const folded of heading.parentElement.querySelectorAll("details")) folded.open = true;
    heading.scrollIntoView();
    heading.focus();
  });
}

document.addEventListener("keydown", (event) => {
  const reading = !byId("pair").hidden;
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    if (reading) location.hash = address();
    byId("overview").hidden = false;
    byId("search").focus();
  } else if (event.key === "Escape" && reading) location.hash = address();
});
byId("filters").addEventListener("input", update);
byId("axes").addEventListener("input", update);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => setTimeout(update, 0));
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
byId("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
  document.documentElement.dataset.theme = state.theme = dark ? "light" : "dark";
  keepTheme(asked());
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("table-heading").focus();
});
window.addEventListener("hashchange", route);
window.addEventListener("resize", () => byId("overview").hidden || drawPlot());
options();
plotOptions();
head();
route();
