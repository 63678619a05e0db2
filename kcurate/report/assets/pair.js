// A pair's own part, routing by #pair=ID, keyboard shortcuts, and start-up.
let parts = null;
let back = null;

// Parts are deflated in groups, in the order of the lines.
async function partOf(at) {
  parts = parts || JSON.parse(byId("parts").textContent);
  const bytes = Uint8Array.from(atob(parts.packed[Math.floor(at / parts.group)]), (one) => one.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(inflated).text())[at % parts.group];
}

async function open(id) {
  const at = lines.findIndex((one) => one.id === id);
  if (at < 0) return close();
  const asked = location.hash;
  const [line, part] = [lines[at], await partOf(at)];
  if (location.hash !== asked) return;
  const article = byId("pair");
  article.replaceChildren();
  const again = make("a", "Back to the table", { href: "#" });
  const heading = make("h2", line.id, { id: "pair-heading", tabindex: "-1" });
  article.append(again, heading, make("p", line.text), facts(line, part));
  section(article, "Code", diffTable(part.slow, part.fast));
  section(article, "Plans", two(part.slow_plan, part.fast_plan));
  section(article, "Problem", make("pre", part.problem, { tabindex: "0", "aria-label": "problem" }));
  section(article, "Verdicts", ...verdicts(part.verdicts));
  const profiles = Object.entries(part.profiles);
  if (profiles.length) section(article, "Profiles", ...profiles.map(([device, rows]) => profile(device, rows)));
  byId("overview").hidden = true;
  article.hidden = false;
  document.title = `${line.id}: kcurate`;
  window.scrollTo(0, 0);
  heading.focus();
}

function close() {
  byId("pair").hidden = true;
  byId("overview").hidden = false;
  document.title = "kcurate: CUDA kernel pairs";
  const link = [...document.querySelectorAll("#table a")].find((one) => one.getAttribute("href") === back);
  if (link) link.focus();
}

function section(article, name, ...inside) {
  const wide = make("div", null, { class: "wide" });
  wide.append(...inside);
  article.append(make("h3", name), wide);
}

function terms(data) {
  const list = make("dl");
  for (const [name, value] of Object.entries(data)) if (value !== "") list.append(make("dt", name.replaceAll("_", " ")), make("dd", value));
  return list;
}

function facts(line, part) {
  const speedup = line.speedup === null ? "not measured" : `${digits(line.speedup, 3)}x (${digits(line.low, 3)} to ${digits(line.high, 3)})`;
  const origin = Object.entries(part.origin).map(([name, value]) => `${name} ${value}`).join("; ");
  return terms({ outcome: line.outcome, speedup, family: line.family, domain: line.domain, techniques: line.techniques.join(", "),
    "fast side, of copy bandwidth": share(line.copy), licence: line.license, origin });
}

function two(slow, fast) {
  const made = make("div", null, { class: "two" });
  for (const [name, text] of [["slow", slow], ["fast", fast]]) {
    const half = make("div");
    half.append(make("strong", name), make("pre", text, { tabindex: "0", "aria-label": `${name} plan` }));
    made.append(half);
  }
  return made;
}

function verdicts(all) {
  if (!all.length) return [make("p", "This pair has not been judged yet.")];
  const table = make("table");
  const head = make("tr");
  for (const name of ["device", "outcome", "speedup", "slow (us)", "fast (us)", "found"]) head.append(make("th", name, { scope: "col" }));
  const body = make("tbody");
  for (const one of all) {
    const made = make("tr");
    const ratio = one.speedup ? `${digits(one.speedup[0], 3)}x (${digits(one.speedup[1], 3)} to ${digits(one.speedup[2], 3)}, ${one.confidence * 100}%)` : "";
    const outcome = make("td", one.current ? one.outcome : `${one.outcome} (on other code)`, { class: one.outcome });
    made.append(make("td", one.device), outcome, make("td", ratio), make("td", one.slow ? one.slow.us : ""), make("td", one.fast ? one.fast.us : ""), make("td", one.detail));
    body.append(made);
  }
  const top = make("thead");
  top.append(head);
  table.append(top, body);
  return [table, ...all.map((one, number) => details(one, number === 0))];
}

function details(one, first) {
  const made = make("details", null, first ? { open: "" } : {});
  made.append(make("summary", `${one.device}: checks, kernels, environment`));
  made.append(make("p", `Checks: ${one.checks.join(", ") || "none"}`));
  for (const name of ["slow", "fast"]) {
    for (const kernel of (one[name] && one[name].kernels) || []) {
      const used = Object.entries(kernel).filter(([key]) => key !== "kernel").map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`);
      made.append(make("p", `${name}, ${kernel.kernel}: ${used.join(", ")}`));
    }
  }
  if (one.log) made.append(make("pre", one.log, { tabindex: "0", "aria-label": "log" }));
  made.append(terms(one.environment));
  return made;
}

function profile(device, rows) {
  const table = make("table"), top = make("thead"), head = make("tr"), body = make("tbody");
  for (const name of [`counter on ${device}`, "slow", "fast"]) head.append(make("th", name, { scope: "col" }));
  for (const [name, slow, fast] of rows) {
    const made = make("tr");
    made.append(make("th", name.replaceAll("_", " "), { scope: "row" }), make("td", slow), make("td", fast));
    body.append(made);
  }
  top.append(head);
  table.append(top, body);
  return table;
}

function route() {
  const match = /^#pair=(.*)$/.exec(location.hash);
  if (match) {
    back = location.hash;
    open(decodeURIComponent(match[1]));
  } else if (!byId("pair").hidden) close();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    if (!byId("pair").hidden) location.hash = "";
    byId("search").focus();
  } else if (event.key === "Escape" && !byId("pair").hidden) location.hash = "";
});
document.addEventListener("click", (event) => {
  const dot = event.target.closest && event.target.closest("svg .dot");
  if (dot) location.hash = `#pair=${encodeURIComponent(dot.dataset.id)}`;
});
byId("filters").addEventListener("input", update);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => setTimeout(update, 0));
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
byId("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.body).backgroundColor !== "rgb(255, 255, 255)";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
window.addEventListener("hashchange", route);
options();
head();
update();
route();
