"use strict";
const all = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const escape = (s) => s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const round = (v) => v.toFixed(1);
const label = (v) => {
  const plain = String(Number(v.toPrecision(6)));
  return plain.length <= 6 ? plain : v.toExponential(1).replace(".0e", "e").replace("e+", "e");
};
// At most n round numbers between two ends, or one more.
function marks([low, high], n = 4) {
  const width = high - low, base = 10 ** Math.floor(Math.log10(width / n)), found = [];
  const step = [1, 2, 2.5, 5, 10].map((m) => m * base).find((s) => width / s <= n);
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
  return found;
}
// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});

// The pair plot at every tolerance, and its table.
(() => {
  const data = all.pair;
  if (!data) return;
  const GAP = 18, LEFT = 50, TOP = 36, BOTTOM = 42;
  const CELLS = 40, SHADES = [0.95, 0.75, 0.5, 0.25], SMOOTH_FROM = 100, DOTS = 1200;
  const k = data.shown.length;
  const PANEL = Math.max(110, Math.min(220, 640 / k)), TICKS = PANEL < 130 ? 2 : 4;
  // A size at which a text is hardly longer than its panel.
  const fit = (text, size) => `style="font-size:${round(Math.min(size, (1.75 * (PANEL + GAP)) / text.length))}px"`;
  const state = { at: data.start, kind: data.adjusted ? "adjusted" : "raw", whole: false };

  // Draws at the chosen tolerance: columns on their axes, and weights that sum to one.
  function draws() {
    const reading = data.readings[state.at];
    if (state.kind === "adjusted") {
      const columns = reading.adjusted.draws, n = columns[0].length;
      return { columns, weight: new Array(n).fill(1 / n) };
    }
    const { theta, weight, distance } = data.rows;
    let n = distance.findIndex((d) => d >= reading.epsilon);
    if (n < 0) n = distance.length;
    const kept = weight.slice(0, n), total = kept.reduce((a, b) => a + b, 0);
    return { columns: theta.map((c) => c.slice(0, n)), weight: kept.map((w) => w / total) };
  }
  const numbers = () => data.readings[state.at][state.kind];
  const onAxis = (j, value) => (data.log[j] ? Math.log10(value) : value);

  // The least distance of two values.
  function gap(column) {
    const values = [...new Set(column)].sort((a, b) => a - b);
    return values.length > 1 ? Math.min(...values.slice(1).map((v, i) => v - values[i])) : 1;
  }
  function limits(j, column) {
    const prior = data.prior && data.prior[j];
    let low, high;
    if (state.whole && prior) {
      low = prior[1]; high = prior[prior.length - 2];
    } else {
      low = Math.min(...column); high = Math.max(...column);
    }
    let room = 0.06 * (high - low) || 0.5 * Math.abs(low) || 0.5;
    if (data.discrete[j]) room = Math.max(room, 0.6 * gap(column));  // whole bars
    low -= room; high += room;
    if (prior && !data.discrete[j]) {  // nothing is drawn beyond the support
      low = Math.max(low, Math.min(prior[0], Math.min(...column)));
      high = Math.min(high, Math.max(prior[prior.length - 1], Math.max(...column)));
    }
    return [low, high];
  }

  // Ticks: at most four round numbers, or powers of ten on a log axis.
  function ticks([low, high], isLog) {
    const width = high - low, found = [];
    if (isLog && width > 1.5) {
      const step = Math.ceil(width / TICKS);
      for (let p = Math.ceil(low); p <= high; p += step) found.push([p, label(10 ** p)]);
      return found;
    }
    if (isLog) {
      for (let p = Math.floor(low); p <= high; p++)
        for (const m of [1, 2, 5]) {
          const at = p + Math.log10(m);
          if (at >= low && at <= high) found.push([at, label(m * 10 ** p)]);
        }
      if (found.length > 1) return found.filter((_, i) => i % Math.ceil(found.length / TICKS) === 0);
    }
    const ends = isLog ? [10 ** low, 10 ** high] : [low, high];
    const some = marks(ends, TICKS), isLong = some.some((v) => label(v).length > 5);
    return (isLong ? marks(ends, TICKS - 1) : some).map((v) => [isLog ? Math.log10(v) : v, label(v)]);
  }

  function draw() {
    const { columns, weight } = draws();
    const side = PANEL + GAP, width = LEFT + k * side, height = TOP + k * side + BOTTOM;
    const range = columns.map((c, j) => limits(j, c));
    const parts = [];
    for (let row = 0; row < k; row++)
      for (let column = 0; column <= row; column++) {
        const x0 = LEFT + column * side, y0 = TOP + row * side;
        const x = scale(range[column], x0, x0 + PANEL), y = scale(range[row], y0 + PANEL, y0);
        parts.push(row === column
          ? margin(row, columns[row], weight, range[row], x, y0)
          : joint(column, row, columns, weight, range, x, y));
        parts.push(frame(row, column, range, x, y, x0, y0));
      }
    const said = data.shown.map((j, i) => `${data.names[j]} ${sentence(i)}`).join("; ");
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"
      viewBox="0 0 ${width} ${height}" role="img" aria-label="Pair plot. ${escape(said)}">
      ${parts.join("")}</svg>`;
    const pair = $("pair");
    pair.style.setProperty("--least", `${LEFT + k * 95}px`);
    pair.className = `drawn ${state.kind}`;
    pair.innerHTML = svg;
  }
  const scale = ([low, high], a, b) => (v) => a + ((v - low) / (high - low)) * (b - a);
  function sentence(i) {
    const j = data.shown[i], found = numbers(), [low, high] = found.interval[j];
    if (data.categorical.includes(j)) {
      const own = found.probabilities.filter((r) => r.parameter === j);
      const top = own.reduce((a, b) => (b.p > a.p ? b : a));
      return `P(${top.value}) = ${short(top.p, 2)}`;
    }
    return `${short(found.estimates[j][0])} [${short(low)}, ${short(high)}]`;
  }

  function frame(row, column, range, x, y, x0, y0) {
    const parts = [];
    const bottom = y0 + PANEL;
    parts.push(`<path class="axis" d="M${x0} ${bottom}h${PANEL}"/>`);
    for (const [v, text] of ticks(range[column], data.log[column])) {
      parts.push(`<path class="axis" d="M${round(x(v))} ${bottom}v4"/>`);
      if (row === k - 1)
        parts.push(`<text x="${round(x(v))}" y="${bottom + 16}" text-anchor="middle">${text}</text>`);
    }
    const name = (j) => escape(data.names[data.shown[j]]);
    if (row === k - 1)
      parts.push(`<text class="name" ${fit(name(column), 12)} x="${x0 + PANEL / 2}" y="${bottom + 33}"
        text-anchor="middle">${name(column)}</text>`);
    if (row === column) {
      const said = escape(sentence(row));
      parts.push(`<text ${fit(said, 11)} x="${x0 + PANEL / 2}" y="${y0 - 6}" text-anchor="middle">${said}</text>`);
      if (row < k - 1)
        parts.push(`<text class="name" ${fit(name(row), 12)} x="${x0 + PANEL / 2}" y="${y0 - 20}"
          text-anchor="middle">${name(row)}</text>`);
      return parts.join("");
    }
    parts.push(`<path class="axis" d="M${x0} ${y0}v${PANEL}"/>`);
    for (const [v, text] of ticks(range[row], data.log[row])) {
      parts.push(`<path class="axis" d="M${x0} ${round(y(v))}h-4"/>`);
      if (column === 0)
        parts.push(`<text x="${x0 - 6}" y="${round(y(v) + 4)}" text-anchor="end">${text}</text>`);
    }
    return parts.join("");
  }

  // The diagonal: a weighted histogram, the prior's density, the mean and the interval.
  function margin(j, column, weight, range, x, y0) {
    const bottom = y0 + PANEL, parts = [];
    const bins = binning(j, column, weight, range);
    const prior = data.prior && bins.edges.slice(1).map((high, b) =>
      (inPrior(j, high) - inPrior(j, bins.edges[b])) / (high - bins.edges[b]));
    const most = Math.max(...bins.height, ...(prior || [])) * 1.05;
    const y = (h) => bottom - (h / most) * (PANEL - 6);
    const steps = (height) => height.map((h, b) =>
      `L${round(x(bins.edges[b]))} ${round(y(h))}H${round(x(bins.edges[b + 1]))}`).join("");
    const first = round(x(bins.edges[0])), last = round(x(bins.edges[bins.edges.length - 1]));
    parts.push(`<path class="fill" d="M${first} ${bottom}${steps(bins.height)}L${last} ${bottom}Z"/>`);
    if (prior) parts.push(`<path class="prior" d="M${first} ${round(y(prior[0]))}${steps(prior)}"/>`);
    const found = numbers(), p = data.shown[j];
    if (data.categorical.includes(p)) return parts.join("");
    const inside = (v) => Math.min(Math.max(v, range[0]), range[1]);
    const [low, high] = found.interval[p].map((v) => x(inside(onAxis(j, v))));
    const mean = x(onAxis(j, found.estimates[p][0]));
    parts.push(`<path class="bar" d="M${round(low)} ${bottom}H${round(high)}"/>`);
    parts.push(`<path class="mean" d="M${round(mean)} ${bottom}V${y0 + 6}"/>`);
    return parts.join("");
  }
  function binning(j, column, weight, [low, high]) {
    let edges;
    if (data.discrete[j]) {
      const half = 0.5 * gap(column), last = Math.max(...column) + half, wanted = [];
      for (let v = Math.min(...column); v <= last && wanted.length < 400; v += 2 * half)
        wanted.push(v - half);
      edges = [...wanted, wanted[wanted.length - 1] + 2 * half];
    } else {
      const a = state.whole ? low : Math.min(...column), b = state.whole ? high : Math.max(...column);
      const n = Math.round(Math.min(40, Math.max(6, 2.5 * Math.cbrt(numbers().ess))));
      const span = b - a || 1;
      edges = Array.from({ length: n + 1 }, (_, i) => a + (span * i) / n);
    }
    const mass = new Array(edges.length - 1).fill(0), last = edges.length - 2;
    const step = edges[1] - edges[0];
    column.forEach((v, i) => {
      const b = Math.min(last, Math.floor((v - edges[0]) / step + 1e-9));
      if (b >= 0) mass[b] += weight[i];
    });
    return { edges, height: mass.map((m) => m / step) };
  }
  // Probability of the prior up to a place, from its quantiles.
  function inPrior(j, v) {
    const q = data.prior[j], n = q.length - 1;
    if (v < q[0]) return 0;
    if (v >= q[n]) return 1;
    let a = 0, b = n;
    while (b - a > 1) { const m = (a + b) >> 1; if (q[m] <= v) a = m; else b = m; }
    return (a + (v - q[a]) / (q[a + 1] - q[a] || 1)) / n;
  }

  // Below it: regions of highest density of a smoothed grid, or the draws where they are few.
  function joint(i, j, columns, weight, range, x, y) {
    const [a, b] = data.mode ? [x(data.mode[i]), y(data.mode[j])] : [];
    const mode = data.mode ? `<path class="mode" d="M${round(a - 6)} ${round(b)}h12m-6 -6v12"/>` : "";
    const few = numbers().ess < SMOOTH_FROM || data.discrete[i] || data.discrete[j];
    return (few ? dots(i, j, columns, weight, x, y) : shades(i, j, columns, weight, range, x, y)) + mode;
  }
  function dots(i, j, columns, weight, x, y) {
    const path = [];
    let left = 0;
    const step = 1 / DOTS;
    let noise = 1;
    const jitter = (is, px) => {
      noise = (noise * 48271) % 2147483647;
      return is ? px + 10 * (noise / 2147483647 - 0.5) : px;
    };
    columns[i].forEach((v, r) => {  // as many dots as weight, at least one a draw once it is due
      left += weight[r];
      const n = data.discrete[i] || data.discrete[j] ? Math.floor(left / step) : +(left >= step);
      left -= n * step;
      for (let c = 0; c < n; c++)
        path.push(`M${round(jitter(data.discrete[i], x(v)))} ${round(jitter(data.discrete[j], y(columns[j][r])))}h0`);
    });
    return `<path class="dots" d="${path.join("")}"/>`;
  }
  function shades(i, j, columns, weight, range, x, y) {
    const [a, b] = range[i], [c, d] = range[j];
    let grid = new Float64Array(CELLS * CELLS);
    columns[i].forEach((v, r) => {
      const p = Math.floor(((v - a) / (b - a)) * CELLS), q = Math.floor(((columns[j][r] - c) / (d - c)) * CELLS);
      if (p >= 0 && p < CELLS && q >= 0 && q < CELLS) grid[q * CELLS + p] += weight[r];
    });
    const ess = numbers().ess;
    grid = smooth(grid, bandwidth(columns[i], weight, ess, b - a), bandwidth(columns[j], weight, ess, d - c));
    const sorted = Array.from(grid).sort((p, q) => q - p);
    const total = sorted.reduce((p, q) => p + q, 0);
    const levels = SHADES.map((share) => {
      let sum = 0, n = 0;
      while (sum < share * total && n < sorted.length) sum += sorted[n++];
      return sorted[Math.max(0, n - 1)];
    });
    const w = (x(b) - x(a)) / CELLS, h = (y(c) - y(d)) / CELLS;
    return levels.map((level) => {
      const path = [];
      for (let q = 0; q < CELLS; q++)
        for (let p = 0; p < CELLS; p++) {
          if (grid[q * CELLS + p] < level) continue;
          const from = p;
          while (p + 1 < CELLS && grid[q * CELLS + p + 1] >= level) p++;
          path.push(`M${round(x(a) + from * w)} ${round(y(c) - (q + 1) * h)}h${round((p - from + 1) * w)}v${round(h)}H${round(x(a) + from * w)}z`);
        }
      return `<path class="shade" fill-opacity=".28" shape-rendering="crispEdges" d="${path.join("")}"/>`;
    }).join("");
  }
  function bandwidth(column, weight, ess, width) {
    let mean = 0, square = 0;
    column.forEach((v, r) => { mean += weight[r] * v; });
    column.forEach((v, r) => { square += weight[r] * (v - mean) ** 2; });
    return Math.max(0.8, (0.6 * Math.sqrt(square) * ess ** (-1 / 6) * CELLS) / width);
  }
  function smooth(grid, across, up) {
    const pass = (from, sd, stride, other) => {
      const reach = Math.ceil(3 * sd), kernel = [];
      for (let t = -reach; t <= reach; t++) kernel.push(Math.exp(-0.5 * (t / sd) ** 2));
      const to = new Float64Array(from.length);
      for (let line = 0; line < CELLS; line++)
        for (let s = 0; s < CELLS; s++) {
          const value = from[line * other + s * stride];
          if (!value) continue;
          kernel.forEach((weight, t) => {
            let at = s + t - reach;  // reflected at the edges, so that no mass leaks out
            if (at < 0) at = -1 - at;
            if (at >= CELLS) at = 2 * CELLS - 1 - at;
            if (at >= 0 && at < CELLS) to[line * other + at * stride] += value * weight;
          });
        }
      return to;
    };
    return pass(pass(grid, across, 1, CELLS), up, CELLS, 1);
  }

  // The table -----------------------------------------------------------------------------------
  const short = (v, digits = 4) => {
    if (v === null) return "nan";
    const number = Number(v.toPrecision(digits)), size = Math.abs(number);
    return size > 0 && (size < 1e-3 || size >= 1e6) ? number.toExponential() : String(number);
  };
  const heads = () => ["mean", "sd", ...data.quantiles.map((q) => `${q} %`)];
  // Of a quantity all estimates, of the value of a category its probability.
  function rows() {
    const { estimates, errors, probabilities } = numbers();
    return [
      ...data.names.map((name, j) => [name, estimates[j], errors[j]])
        .filter((_, j) => !data.categorical.includes(j)),
      ...probabilities.map((r) => [`P(${data.names[r.parameter]} = ${r.value})`, [r.p], [r.error]]),
    ];
  }
  const cells = (v, e, told) => heads().map((_, c) => (c < v.length ? told(v[c], e[c]) : ""));
  function table() {
    const told = (v, e) => `${short(v)}<small>± ${short(e, 1)}</small>`;
    $("numbers").tBodies[0].innerHTML = rows().map(([name, v, e]) =>
      `<tr><th scope="row">${escape(name)}</th>${
        cells(v, e, told).map((text) => `<td>${text}</td>`).join("")}</tr>`).join("");
  }
  const FORMATS = {
    latex() {
      const name = (s) => s.replace(/[_%&#$]/g, "\\$&");
      const told = (v, e) => `$${short(v)} \\pm ${short(e, 1)}$`;
      const lines = rows().map(([n, v, e]) => `${name(n)} & ${cells(v, e, told).join(" & ")} \\\\`);
      return [`\\begin{tabular}{l${"r".repeat(heads().length)}}`, "\\hline",
        ` & ${heads().map(name).join(" & ")} \\\\`, "\\hline", ...lines, "\\hline", "\\end{tabular}"].join("\n");
    },
    markdown() {
      const line = (some) => `| ${some.join(" | ")} |`;
      const told = (v, e) => `${short(v)} ± ${short(e, 1)}`;
      return [line(["", ...heads()]), line(["---", ...heads().map(() => "---:")]),
        ...rows().map(([n, v, e]) => line([n.replace(/\|/g, "\\|"), ...cells(v, e, told)]))].join("\n");
    },
    csv() {
      const cols = ["mean", "sd", ...data.quantiles.map((q) => `q${q}`)];
      const quoted = (s) => (/[",\n]/.test(s) ? `"${s.replace(/"/g, '""')}"` : s);
      return [["parameter", ...cols, ...cols.map((c) => `mcse_${c}`)].join(","),
        ...rows().map(([n, v, e]) => [quoted(n), ...cells(v, e, (x) => x), ...cells(v, e, (_, x) => x)].join(","))].join("\n");
    },
  };
  async function copy(format) {
    const text = FORMATS[format]();
    $("text").textContent = text;
    $("text").hidden = false;
    try {
      await navigator.clipboard.writeText(text);
      $("copied").textContent = "Copied.";
    } catch {  // not every browser lets a file do it
      getSelection().selectAllChildren($("text"));
      $("copied").textContent = "Copy the text below.";
    }
  }

  function show() {
    const reading = data.readings[state.at];
    if (!reading.adjusted) state.kind = "raw";
    $("epsilon").value = state.at;
    $("where").textContent =
      `ε = ${short(reading.epsilon)}, ESS ${Math.round(numbers().ess)}, ${numbers().n} draws` +
      (state.at === data.start ? " (the answer)" : "");
    for (const radio of document.getElementsByName("kind")) {
      radio.checked = radio.value === state.kind;
      radio.disabled = radio.value === "adjusted" && !reading.adjusted;
    }
    draw();
    table();
  }
  $("epsilon").max = data.readings.length - 1;
  $("epsilon").addEventListener("input", (e) => { state.at = +e.target.value; show(); });
  $("whole").addEventListener("change", (e) => { state.whole = e.target.checked; show(); });
  $("whole").parentElement.hidden = !data.prior;
  $("back").addEventListener("click", () => {
    state.at = data.start; state.kind = data.adjusted ? "adjusted" : "raw"; show();
  });
  for (const radio of document.getElementsByName("kind"))
    radio.addEventListener("change", (e) => { state.kind = e.target.value; show(); });
  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", () => copy(button.dataset.copy));
  $("legend").textContent = "On the diagonal the posterior (filled), the prior (dashed), the mean " +
    "(line) and the shortest interval with 90 % (bar); below it regions that hold 25, 50, 75 and " +
    "95 %, or the draws where they are few or a parameter is discrete; the cross is the mode.";
  for (const id of ["controls", "legend", "copies"]) $(id).hidden = false;
  show();
})();

// The boxes of two parameters, round by round.
(() => {
  const data = all.partitions;
  if (!data) return;
  const SIDE = 320, LEFT = 56, TOP = 8, BOTTOM = 40;
  const which = $("which"), rounds = $("rounds");
  data.pairs.forEach((pair, i) => which.add(new Option(pair.names.join(" and "), i)));
  rounds.max = rounds.value = data.rounds.length - 1;
  function draw() {
    const pair = data.pairs[which.value], { boxes, shades, dots } = pair.rounds[rounds.value];
    // The whole sides, in thousandths, or what the accepted draws of the last round span.
    const last = pair.rounds[pair.rounds.length - 1].dots;
    const spans = [0, 1].map((side) => {
      if (!$("near").checked || last.length < 2) return [0, 1000];
      const at = last.map((dot) => dot[side]), room = 5 + 0.1 * (Math.max(...at) - Math.min(...at));
      return [Math.max(0, Math.min(...at) - room), Math.min(1000, Math.max(...at) + room)];
    });
    const [x, y] = spans.map(([a, b], side) => (v) => {
      const share = Math.min(1, Math.max(0, (v - a) / (b - a)));
      return side ? TOP + SIDE * (1 - share) : LEFT + SIDE * share;
    });
    const within = (dot) => spans.every(([a, b], side) => dot[side] >= a && dot[side] <= b);
    const parts = boxes.map(([left, bottom, right, top], i) =>
      `<rect x="${round(x(left))}" y="${round(y(top))}" width="${round(x(right) - x(left))}"
        height="${round(y(bottom) - y(top))}" fill-opacity="${shades[i] / 1200}"/>`);
    parts.push(`<path class="dots" d="${dots.filter(within).map(([a, b]) =>
      `M${round(x(a))} ${round(y(b))}h0`).join("")}"/>`);
    pair.limits.forEach(([low, high], side) => {
      const ends = spans[side].map((v) => low + (v / 1000) * (high - low));
      for (const v of marks(ends)) {
        const at = (1000 * (v - low)) / (high - low);
        parts.push(side
          ? `<text x="${LEFT - 6}" y="${round(y(at) + 4)}" text-anchor="end">${label(v)}</text>`
          : `<text x="${round(x(at))}" y="${TOP + SIDE + 15}" text-anchor="middle">${label(v)}</text>`);
      }
    });
    const [across, up] = pair.names.map(escape), middle = TOP + SIDE / 2;
    parts.push(`<text x="${LEFT + SIDE / 2}" y="${TOP + SIDE + 33}" text-anchor="middle">${across}</text>`,
      `<text x="12" y="${middle}" text-anchor="middle" transform="rotate(-90 12 ${middle})">${up}</text>`);
    $("round").textContent = data.rounds[rounds.value];
    $("boxes").innerHTML = `<svg xmlns="http://www.w3.org/2000/svg" width="${LEFT + SIDE + 12}"
      height="${TOP + SIDE + BOTTOM}" viewBox="0 0 ${LEFT + SIDE + 12} ${TOP + SIDE + BOTTOM}" role="img"
      aria-label="${boxes.length} boxes of ${across} and ${up} in ${data.rounds[rounds.value]}">${parts.join("")}</svg>`;
  }
  which.addEventListener("change", draw);
  $("near").addEventListener("change", draw);
  rounds.addEventListener("input", draw);
  $("partitions").hidden = false;
  draw();
})();
