// The plot: a dot for each pair that is shown, in rows by domain, technique, origin or device; bars of outcomes where
// nothing was timed.
const MEASURES = {
  speedup: "Speedup",
  copy: "Share of the copy bandwidth that the fast side reaches",
  fast_us: "Time of the fast side in microseconds",
};
const GROUPS = { domain: "domain", technique: "techniques", origin: "origin", device: "device" };
// Only so many dots and rows are drawn; medians and ranges are computed from all pairs.
const SVG = document.querySelector("#plot svg").namespaceURI;
const MOST_DOTS = 1500, MOST_ROWS = 40, ROW_HEIGHT = 30, LABELS_ABOVE = 640;

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function plotOptions() {
  for (const [id, names] of [["of", MEASURES], ["by", GROUPS]]) {
    for (const name of Object.keys(names)) {
      const useful = id === "of" ? !empty(name) : name === "domain" || differs(names[name]);
      if (useful) byId(id).append(make("option", { value: name }, id === "of" ? names[name].toLowerCase() : name));
    }
    byId(id).dataset.first = id === "of" ? "speedup" : "domain";
    byId(id).parentElement.hidden = byId(id).options.length < 2;
  }
  byId("axes").hidden = byId("plot-keys").hidden = !measured;
  byId("plot").parentElement.hidden = !measured && !differs("outcome");
}

// Rows [name, lines]: all that are shown, then the largest groups, the highest median first.
function groups(shown, measure) {
  const found = new Map();
  for (const line of shown) {
    for (const name of [].concat(line[GROUPS[byId("by").value]])) found.has(name) ? found.get(name).push(line) : found.set(name, [line]);
  }
  const median = new Map([...found].map(([name, group]) => [name, middle(ascending(group.map((line) => line[measure])), 0.5)]));
  const largest = [...found].sort((a, b) => b[1].length - a[1].length).slice(0, MOST_ROWS);
  return [["all of these", shown], ...largest.sort((a, b) => median.get(b[0]) - median.get(a[0]))];
}

function logScale(values, from, to) {
  const [low, high] = [Math.log(Math.min(...values) / 1.1), Math.log(Math.max(...values) * 1.1)];
  const place = (value) => from + ((Math.log(value) - low) / (high - low)) * (to - from);
  const ticks = [];
  for (let power = Math.floor(low / Math.LN10); power <= high / Math.LN10; power += 1) {
    for (const step of high - low > 7 ? [1] : high - low > 4 ? [1, 3] : [1, 2, 5]) ticks.push(step * 10 ** power);
  }
  return [place, ticks.filter((tick) => Math.log(tick) >= low && Math.log(tick) <= high)];
}

function drawPlot() {
  byId("dot").textContent = "";
  const measure = byId("of").value || "speedup";
  const shown = state.shown.filter((line) => line[measure] > 0 && (line.outcome === "confirmed" || measure !== "speedup"));
  const drawn = !measured ? outcomes() : shown.length ? strips(shown, measure) : make("p", {}, "Nothing of this was timed.");
  byId("plot-heading").textContent = measured ? `${MEASURES[measure]} by ${byId("by").value}` : "Outcomes";
  byId("plot").replaceChildren(drawn);
}

function outcomes() {
  const counts = new Map();
  for (const line of state.shown) counts.set(line.outcome, (counts.get(line.outcome) || 0) + 1);
  const most = Math.max(...counts.values());
  return make("div", { class: "bars" }, [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) =>
    make("div", {}, make("span", { class: name.replace(" ", "_") }, `${words(name)}: ${count}`), make("div", { class: "bar", style: `width: ${(100 * count) / most}%` }))));
}

function strips(shown, measure) {
  const width = Math.max(300, byId("plot").clientWidth), above = width < LABELS_ABOVE;
  const rows = groups(shown, measure), left = above ? 8 : 210, height = ROW_HEIGHT + (above ? 16 : 0);
  const [place, ticks] = logScale(shown.map((line) => line[measure]), left + 6, width - 20);
  const floor = 8 + rows.length * height;
  const label = (value) => (measure === "copy" ? `${value * 100}%` : value.toLocaleString("en-US", { maximumSignificantDigits: 3 }));
  const picture = svg("svg", { width, height: floor + 24, role: "group", tabindex: "0", "aria-label": `${byId("plot-heading").textContent}: ${shown.length} dots; arrow keys go from dot to dot` });
  for (const tick of ticks) {
    picture.append(svg("path", { class: "grid", d: `M${place(tick)} 4V${floor}` }), svg("text", { x: place(tick), y: floor + 17, "text-anchor": "middle" }, label(tick)));
  }
  const every = Math.ceil((2 * shown.length) / MOST_DOTS);
  rows.forEach(([name, group], at) => {
    const values = ascending(group.map((line) => line[measure]));
    const [low, half, high] = [0.25, 0.5, 0.75].map((share) => middle(values, share));
    const y = 8 + at * height + height / 2 + (above ? 8 : 0);
    const text = svg("text", above ? { x: left, y: y - 17 } : { x: left - 8, y: y + 4, "text-anchor": "end" }, `${name} (${group.length})`);
    picture.append(at ? svg("a", { href: address({ [byId("by").value]: name }) }, text) : text);
    picture.append(svg("rect", { class: "half", x: place(low), y: y - 11, width: Math.max(2, place(high) - place(low)), height: 22 },
      svg("title", {}, `${name}: ${group.length} pairs, median ${label(half)}, middle half from ${label(low)} to ${label(high)}`)));
    picture.append(...dots(group.filter((_, number) => number % every === 0), measure, place, y));
    picture.append(svg("path", { class: "median", d: `M${place(half)} ${y - 12}v24` }));
  });
  keys(picture, measure);
  return picture;
}

// Dots that would cover each other move up and down in turns, as far as the row goes.
function dots(group, measure, place, y) {
  const taken = new Map();
  return group.map((line) => {
    const x = place(line[measure]), slot = Math.round(x / 4), count = taken.get(slot) || 0;
    taken.set(slot, count + 1);
    const up = ((count % 7) + 1) >> 1;
    return svg("circle", { class: "dot", "data-id": line.id, cx: x.toFixed(1), cy: (y + (count % 2 ? -up : up) * 3.2).toFixed(1), r: 3 });
  });
}

function described(line, measure) {
  const values = { copy: percent(line.copy), fast_us: `${three(line.fast_us)} microseconds`, speedup: `${three(line.speedup)} times as fast (${three(line.low)} to ${three(line.high)})` };
  return `${line.id}: ${values[measure]}`;
}

function keys(picture, measure) {
  const all = [...picture.querySelectorAll(".dot")];
  let at = -1;
  const mark = (dot) => {
    for (const other of picture.querySelectorAll(".marked")) other.classList.remove("marked");
    dot.classList.add("marked");
    if (!dot.firstChild) dot.append(svg("title", {}, described(lines.find((line) => line.id === dot.dataset.id), measure)));
    byId("dot").textContent = dot.textContent;
  };
  picture.addEventListener("mouseover", (event) => event.target.matches(".dot") && mark(event.target));
  picture.addEventListener("click", (event) => event.target.matches(".dot") && (location.hash = address({ pair: event.target.dataset.id })));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      at = (at + step + all.length) % all.length;
      mark(all[at]);
    } else if (event.key === "Enter" && event.target === picture && at >= 0) location.hash = address({ pair: all[at].dataset.id });
  });
}
