/* Runs a report's page on the data of report_data.js.
 *
 * The page holds the text as plain text, in pieces; a piece near the window is replaced by an
 * element for each cell, so that a long text costs no more than its visible part. */
"use strict";

/* The scales of colour.  Words have a wider range of surprise than characters do. */
const STEPS = 12;
const NATS_A_STEP = words ? 1 : 0.5;
const DIFFERENCES = 11;
const MIDDLE = (DIFFERENCES - 1) / 2;

/* Differences vary with the models: the scale covers all but the largest. */
const differences = compare ? models[0].nats.map((nats, i) => nats - models[1].nats[i]) : null;
const NATS_A_DIFFERENCE = compare ? roundUp(quantile(differences.map(Math.abs), 0.98) / MIDDLE) : 0;

/* Tokens of a piece: enough to fill a window, few enough to be replaced within a frame. */
const PIECE = 800;

/* A quantile of the finite values; positive, even if all are 0. */
function quantile(values, part) {
  const sorted = values.filter(Number.isFinite).sort();
  return sorted[Math.floor(part * (sorted.length - 1))] || 1e-6;
}

function percent(probability) {
  const value = 100 * probability;
  if (value < 0.001) {
    return "< 0.001 %";
  }
  return value > 99.95 ? "> 99.9 %" : `${value.toPrecision(value < 10 ? 2 : 3)} %`;
}

/* ---- Colour ------------------------------------------------------------------------------- */

/* What the colour shows: the surprise of one model, or the difference of both. */
let view = { model: models[0] };

function colour(i) {
  if (!scored(i)) {
    return "context";
  }
  if (view.model) {
    return `s${Math.min(STEPS - 1, Math.floor(view.model.nats[i] / NATS_A_STEP))}`;
  }
  const step = Math.round(differences[i] / NATS_A_DIFFERENCE);
  return `d${MIDDLE + Math.max(-MIDDLE, Math.min(MIDDLE, step))}`;
}

/* Of labels that would overlap, keeps the one further to the right. */
function thinOut(labels) {
  let free = Infinity;
  for (const label of labels.toReversed()) {
    const { left, right } = label.getBoundingClientRect();
    label.hidden = right + 8 > free;
    free = label.hidden ? free : left;
  }
}

function drawLegend() {
  const powers = words ? [1, 2, 3, 4] : [1, 2];
  const most = STEPS * NATS_A_STEP;
  const rarest = Number(Math.exp(most).toPrecision(2));
  const [letter, steps, ticks] = view.model
    ? ["s", STEPS, [
      [0, "likely"],
      ...powers.map((power) => [power * Math.LN10 / most, `1 in ${count(10 ** power)}`]),
      [1, `1 in ${count(rarest)}+`]]]
    : ["d", DIFFERENCES, [
      [0, `${models[0].name} better`],
      [0.5, `to ${Number((MIDDLE * NATS_A_DIFFERENCE).toPrecision(2))}+ nats`],
      [1, `${models[1].name} better`]]];
  const labels = ticks.map(([place, text]) => {
    const tick = element("span", {}, text);
    tick.style.left = `${100 * place}%`;
    return tick;
  });
  const legend = byId("legend");
  legend.replaceChildren(
    element("div", { class: "steps" },
      ...Array.from({ length: steps }, (_, i) => element("i", { class: letter + i }))),
    element("div", { class: "ticks" }, ...labels));
  thinOut(labels);
  legend.setAttribute("aria-label", view.model
    ? `Colour: surprise, from pale, likely, to strong, 1 in ${count(rarest)} or rarer`
    : "Colour: blue where the first model is better, orange where the second is");
}

function addViews() {
  const views = [...models.map((model) => ({ model, label: model.name })),
    { model: null, label: "Difference" }];
  views.forEach((choice, i) => {
    const input = element("input", { type: "radio", name: "view" });
    input.checked = i === 0;
    input.addEventListener("change", () => {
      view = choice;
      drawLegend();
      drawCourse();
      pieces.filter((piece) => piece.cells).forEach(show);
    });
    byId("views").append(element("label", {}, input, choice.label));
  });
  byId("views").hidden = false;
}

/* ---- Text --------------------------------------------------------------------------------- */

/* { first, end: tokens; element; cells: by their first tokens, null while it is plain text } */
const pieces = [];
const pieceOf = new Map();

/* The token with the keyboard's focus, or that would get it; and the one under the mouse. */
let current = 0;
let chosen = false;
let hovered = -1;

function pieceAt(i) {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (pieces[middle].first <= i) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return pieces[low];
}

function begins(i) {
  return i === 0 || linesBefore(i) > 0;
}

/* Pieces end at the end of a line, after a blank if the line is long, or else anywhere.  A piece
 * that is not whole lines is a part of one line, which its neighbours continue. */
function cutPieces() {
  let first = 0;
  for (let i = 1; i <= n; i++) {
    const length = i - first;
    const parted = words || symbols.get(ids[i - 1]) === " ";
    if (i === n || (length >= PIECE && linesBefore(i) > 0)
      || (length >= 2 * PIECE && parted) || (length >= 3 * PIECE && cellOf(i) === i)) {
      const whole = begins(first) && (i === n || linesBefore(i) > 0);
      pieces.push({ first, end: i, element: element(whole ? "div" : "span"), cells: null });
      first = i;
    }
  }
}

/* Calls `cell` with the first token of each cell of a piece, `between` with what is between. */
function walk(piece, cell, between) {
  for (let i = piece.first; i < piece.end; i = cellEnd(i)) {
    const space = gap(i, i === piece.first && begins(i));
    if (space !== "") {
      between(space);
    }
    cell(i);
  }
}

function hide(piece) {
  let text = "";
  walk(piece, (i) => { text += cellText(i); }, (blank) => { text += blank; });
  piece.cells = null;
  piece.element.textContent = text;
}

function show(piece) {
  const content = document.createDocumentFragment();
  piece.cells = new Map();
  walk(piece, (i) => {
    const cell = document.createElement("b");
    /* Where a line wraps, the blank before a word stays on the line before: it has no colour. */
    const word = cellText(i).replace(/^ +(?=[^ ])/u, "");
    const blank = cellText(i).slice(0, -word.length);
    cell.append(...(blank === "" ? [word] : [blank, element("span", {}, word)]));
    cell.token = i;
    paint(cell);
    piece.cells.set(i, cell);
    content.append(cell);
  }, (blank) => content.append(blank));
  piece.element.replaceChildren(content);
  if (holdsCurrent(piece)) {
    markCell();
  }
}

/* A character of several bytes has a stripe for each. */
function paint(cell) {
  const length = cellEnd(cell.token) - cell.token;
  if (length === 1) {
    cell.className = colour(cell.token);
    return;
  }
  const stripes = Array.from({ length }, (_, k) => {
    const name = colour(cell.token + k);
    const shade = name === "context" ? "transparent" : `var(--${name})`;
    return `${shade} ${100 * k / length}% ${100 * (k + 1) / length}%`;
  });
  cell.style.backgroundImage = `linear-gradient(to right, ${stripes.join(", ")})`;
}

function holdsCurrent(piece) {
  return current >= piece.first && current < piece.end;
}

const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const piece = pieceOf.get(target);
    if (isIntersecting && !piece.cells) {
      show(piece);
    } else if (!isIntersecting && piece.cells && !holdsCurrent(piece)) {
      hide(piece);
    }
  }
}, { rootMargin: "1000px" });

/* On paper every piece has its colours. */
addEventListener("beforeprint", () => pieces.filter((piece) => !piece.cells).forEach(show));
addEventListener("afterprint", () => pieces.forEach(({ element }) => {
  near.unobserve(element);
  near.observe(element); /* tells again which are near */
}));

function buildText() {
  const text = byId("text");
  text.classList.toggle("bytes", data.bytes);
  cutPieces();
  pieces.forEach((piece) => {
    pieceOf.set(piece.element, piece);
    hide(piece);
  });
  const style = getComputedStyle(text);
  const columns = text.clientWidth / (0.5 * parseFloat(style.fontSize));
  for (const piece of pieces) {
    piece.lines = piece.element.textContent.split("\n")
      .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns)), 0);
    near.observe(piece.element);
  }
  /* The parts of one line, or of several, stand in a block of their own. */
  let block = null;
  let lines = 0;
  for (const piece of pieces) {
    const whole = piece.element.localName === "div";
    if (whole || begins(piece.first)) {
      block = whole ? piece.element : element("div", { class: "parts" });
      lines = 0;
      text.append(block);
    }
    if (!whole) {
      block.append(piece.element);
    }
    lines += piece.lines;
    block.style.containIntrinsicSize = `auto ${lines * parseFloat(style.lineHeight)}px`;
  }
  show(pieces[0]);
}

function cellElement(i) {
  const piece = pieceAt(i);
  if (!piece.cells) {
    show(piece);
  }
  return piece.cells.get(cellOf(i));
}

/* ---- The current token -------------------------------------------------------------------- */

/* The name of a character that is hardly visible, or null. */
function unseen(id) {
  return id === boundary ? "line end" : symbols.get(id) === " " ? "space" : null;
}

function spoken(i) {
  const name = unseen(ids[i]) ?? cellText(cellOf(i));
  const judgements = models.map(({ nats, ranks }) =>
    `probability ${percent(Math.exp(-nats[i]))}, rank ${count(ranks[i] + 1)}`);
  return `${name}: ${scored(i) ? judgements.join("; ") : "context"}`;
}

function markCell() {
  const cell = cellElement(current);
  cell.tabIndex = 0;
  cell.setAttribute("role", "button");
  cell.setAttribute("aria-label", spoken(current));
  cell.classList.toggle("chosen", chosen);
}

function unmarkCell() {
  const cell = cellElement(current);
  for (const name of ["tabindex", "role", "aria-label"]) {
    cell.removeAttribute(name);
  }
  cell.classList.remove("chosen");
}

function choose(i, block = "nearest") {
  unmarkCell();
  current = i;
  chosen = true;
  markCell();
  describe();
  const cell = cellElement(i);
  cell.focus({ preventScroll: true });
  cell.scrollIntoView({ block });
  markCourse(i);
}

/* Pieces in between get their true heights only when they are laid out, so this scrolls again. */
function jump(i) {
  choose(i, "center");
  requestAnimationFrame(() => requestAnimationFrame(() => {
    cellElement(current).scrollIntoView({ block: "center" });
  }));
}

function release() {
  chosen = false;
  hovered = -1;
  document.activeElement.blur();
  markCell();
  describe();
  markCourse(null);
}

function neighbour(i, direction) {
  const next = direction > 0 ? cellEnd(i) : cellOf(i) - 1;
  return next >= 0 && next < n ? cellOf(next) : -1;
}

function boxOf(i) {
  const cell = cellElement(i);
  return (cell.querySelector("span") ?? cell).getClientRects()[0];
}

/* The cells of the line, as it is shown, above or below that of cell `i`. */
function lineBeside(i, direction) {
  const apart = (a, b) => Math.abs(a.top - b.top) > a.height / 2;
  const line = [];
  let next = neighbour(i, direction);
  while (next !== -1 && !apart(boxOf(next), boxOf(i))) {
    next = neighbour(next, direction);
  }
  while (next !== -1 && (line.length === 0 || !apart(boxOf(next), boxOf(line[0])))) {
    line.push(next);
    next = neighbour(next, direction);
  }
  return line;
}

function across(i, direction) {
  const middle = (box) => (box.left + box.right) / 2;
  const here = middle(boxOf(i));
  const away = (cell) => Math.abs(middle(boxOf(cell)) - here);
  /* The first one of two that are equally far, to a pixel. */
  return lineBeside(i, direction)
    .reduce((best, cell) => (best === -1 || away(cell) < away(best) - 1 ? cell : best), -1);
}

function lineStart(i) {
  const above = lineBeside(i, -1);
  return above.length > 0 ? neighbour(above[0], 1) : 0;
}

function lineEnd(i) {
  const below = lineBeside(i, 1);
  return below.length > 0 ? neighbour(below[0], -1) : n - 1;
}

const keys = {
  ArrowLeft: (i) => i - 1,
  ArrowRight: (i) => i + 1,
  ArrowUp: (i) => across(i, -1),
  ArrowDown: (i) => across(i, 1),
  Home: (i, event) => (event.ctrlKey ? 0 : lineStart(i)),
  End: (i, event) => (event.ctrlKey ? n - 1 : lineEnd(i)),
  Enter: (i) => i,
  " ": (i) => i,
};

/* The token under the pointer; in a character of several bytes, the one whose stripe it is. */
function under(event) {
  const cell = event.target.closest("b");
  if (!cell) {
    return -1;
  }
  const length = cellEnd(cell.token) - cell.token;
  const box = cell.getBoundingClientRect();
  const stripe = Math.floor(length * (event.clientX - box.left) / box.width) || 0;
  return cell.token + Math.max(0, Math.min(length - 1, stripe));
}

function listen() {
  const text = byId("text");
  text.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.altKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    const i = keys[event.key](current, event);
    if (i >= 0 && i < n) {
      choose(i);
    }
  });
  text.addEventListener("focusin", () => {
    if (!chosen) {
      choose(current);
    }
  });
  text.addEventListener("click", (event) => {
    const i = under(event);
    if (i !== -1 && getSelection().isCollapsed) {
      choose(i);
    }
  });
  text.addEventListener("pointermove", (event) => {
    const i = under(event);
    if (event.pointerType === "mouse" && i !== -1 && i !== hovered) {
      hovered = i;
      describe();
    }
  });
  text.addEventListener("pointerleave", () => {
    hovered = -1;
    describe();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen) {
      release();
    }
  });
}

/* ---- What is shown of a token ------------------------------------------------------------- */

const hint = byId("token").firstElementChild;

function describe() {
  const box = byId("token");
  const i = hovered === -1 && chosen ? current : hovered;
  box.classList.toggle("open", i !== -1);
  if (i === -1) {
    box.replaceChildren(hint);
    return;
  }
  const cell = cellOf(i);
  const length = cellEnd(cell) - cell;
  const place = length > 1 ? `byte ${i - cell + 1} of ${length}, ` : "";
  const close = element("button", { type: "button", class: "close" }, "Close");
  close.addEventListener("click", release);
  box.replaceChildren(
    element("div", { class: "top" },
      named("p", "name", ids[cell], cellText(cell)),
      element("p", { class: "hint" }, `${place}token ${count(i)}`
        + (surfaces.has(i) ? `, ${symbols.get(ids[i])} to the model` : "")),
      close),
    ...(scored(i) ? alternatives(i).map((rows, number) => judgement(models[number], i, rows))
      : [element("p", { class: "hint" }, "Context only: it is not predicted.")]));
}

function named(tag, role, id, shown) {
  const name = unseen(id);
  return element(tag, { class: name ? `${role} unseen` : role }, name ?? shown);
}

function judgement(model, i, rows) {
  const nats = model.nats[i];
  const own = { rank: model.ranks[i], id: ids[i], nats };
  const figure = (name, value) => [element("dt", {}, name), element("dd", {}, value)];
  const listed = rows.map((row) => (row.id === own.id ? own : row));
  if (own.rank >= rows.length) {
    listed.push(own);
  }
  return element("div", { class: "judgement" },
    ...(models.length > 1 ? [element("h3", {}, model.name)] : []),
    element("dl", {},
      ...figure("Probability", percent(Math.exp(-nats))),
      ...figure("Nats", nats.toFixed(3)),
      ...figure("Bits", (nats / Math.LN2).toFixed(3)),
      ...figure("Rank", `${count(own.rank + 1)} of ${count(nToken)}`)),
    element("ol", { "aria-label": "Likeliest tokens" },
      ...listed.map((row) => alternative(row, row === own))));
}

function alternative(row, itself) {
  const bar = element("i");
  bar.style.width = `${100 * Math.exp(-row.nats)}%`;
  const classes = [itself ? "itself" : "", row.rank >= nTop ? "beyond" : ""];
  return element("li", { class: classes.join(" ") },
    element("span", { class: "place" }, count(row.rank + 1)),
    named("span", "symbol", row.id, symbols.get(row.id)),
    element("span", { class: "track" }, bar),
    element("span", { class: "amount" }, percent(Math.exp(-row.nats))));
}

/* ---- Plots -------------------------------------------------------------------------------- */

/* With two models, which line is whose. */
function withKey(text) {
  const key = models.length > 1 ? models.map((model, i) =>
    element("span", { class: `key ${["first", "second"][i]}` }, element("i"), model.name)) : [];
  const line = document.createDocumentFragment();
  line.append(...key, text);
  return line;
}

let markCourse = () => {};

/* What the plot shows: bits of each model, or, with the difference, the second's nats minus the
 * first's, as in the figures. */
function courseSeries() {
  if (view.model) {
    return {
      name: `Bits per ${unit} along the text`,
      label: `bits per ${unit}`,
      lines: models.map((model) => (first, end) => bits(model, first, end)),
      tell: (value) => `${value.toFixed(3)} bits`
        + (words ? ` (perplexity ${(2 ** value).toFixed(1)})` : ""),
    };
  }
  return {
    name: `Difference along the text`,
    label: `nats per ${unit}, ${models[1].name} less ${models[0].name}`,
    lines: [(first, end) =>
      (bits(models[1], first, end) - bits(models[0], first, end)) * Math.LN2],
    tell: (value) => `${value > 0 ? "+" : ""}${value.toFixed(4)} nats`,
  };
}

/* The running mean over enough tokens that the curve of a long text is not noise. */
function drawCourse() {
  const box = byId("course");
  const { name, label, lines, tell } = courseSeries();
  const window = Math.max(20, Math.min(5000, Math.round(n / 50)));
  const mean = (line, i) => {
    const first = Math.max(0, Math.min(n - window, Math.round(i - window / 2)));
    return line(first, Math.min(n, first + window));
  };
  const places = Math.min(n - 1, 400);
  const around = words ? 5 : 25;
  const key = (text) => (lines.length > 1 ? withKey(text) : text);
  const textAt = (i) => {
    if (i === null) {
      return key(`Mean of ${count(window)} ${unit}s; dashed: of all. Click to go to a place.`);
    }
    return key(`${unit} ${count(i)}: ${lines.map((line) => tell(mean(line, i))).join(", ")}\n`
      + `… ${excerpt(i - around, i + around)} …`);
  };
  box.querySelector("h2").textContent = name;
  markCourse = plot(box.querySelector("figure"), {
    name,
    series: lines.map((line) => ({
      points: Array.from({ length: places + 1 }, (_, k) => Math.round(k * (n - 1) / places))
        .map((i) => [i, mean(line, i)]),
      level: line(0, n),
    })),
    x: { low: 0, high: n - 1, ticks: roundTicks(0, n - 1, 4), label: `${unit} of the text` },
    y: { label },
    at: (part) => Math.round(part * (n - 1)),
    next: (i, direction) =>
      Math.max(0, Math.min(n - 1, (i ?? 0) + direction * Math.ceil(n / 100))),
    textAt,
    pick: jump,
  });
  markCourse(chosen ? current : null);
}

/* ---- Figures ------------------------------------------------------------------------------ */

/* Perplexity for words, bits per character for the other kinds; for pieces only if they are
 * known. */
const perplexing = words && !(marked && result.bits_per_character !== null);

function headlineOf(each) {
  return perplexing ? each.perplexity : each.bits_per_character;
}

const headlineName = perplexing ? "perplexity" : "bits per character";
const headlineDigits = perplexing ? 2 : 4;

function modelHeadline(each, model) {
  const scale = perplexing ? each.perplexity
    : (marked ? result.predicted / result.characters : 1) / Math.LN2;
  const spread = each.standard_error === null ? ""
    : ` ±\u00a0${fixed(each.standard_error * scale, headlineDigits)}`;
  const more = [`${count(result.predicted)} ${unit}s scored`,
    perplexing ? `${fixed(each.bits_per_token, 3)} bits per token`
      : `perplexity ${fixed(each.perplexity, 3)}`,
    `memory of ${count(each.settings.mem_len)}`,
    ...(each.dynamic ? ["each segment scored before the model learned from it"] : [])];
  return headline(model.name, fixed(headlineOf(each), headlineDigits), `${headlineName}${spread}`,
    more);
}

/* The difference of the two models. */
function differenceHeadline() {
  const { difference, difference_standard_error: error } = compare;
  const sign = difference > 0 ? "+" : "";
  const spread = error === null ? "" : ` ±\u00a0${fixed(error, 5)}`;
  const more = [`KL divergence ${fixed(compare.kl_divergence, 5)}`,
    `same most likely ${unit} ${(100 * compare.top_agreement).toFixed(2)} %`,
    `largest difference ${fixed(compare.largest_difference, 3)} at ${unit} `
      + count(compare.largest_difference_index)];
  return headline(`${models[1].name} less ${models[0].name}`, `${sign}${fixed(difference, 5)}`,
    `nats per ${unit}${spread}`, more, " difference");
}

/* Every figure, with a column for each model; a name that both have appears once. */
function drawFigures() {
  const columns = [{ model: data.model, ...result }, ...(compare ? [compare] : [])]
    .map(({ settings, dynamic, ...figures }) => ({ ...figures, ...settings,
      ...(dynamic && { drift: dynamic.drift }) }));
  const keys = new Set(columns.flatMap(Object.keys));
  byId("figures").append(...Array.from(keys, (key) => element("tr", {},
    element("th", { scope: "row" }, ...breakable(key)),
    ...columns.map((figures) => element("td", {}, plain(figures[key]))))));
}

/* Only the lengths that were measured can be pointed at. */
function drawSweep() {
  const box = byId("sweep");
  const tried = new Map(results.map((each) => [each.settings.mem_len, headlineOf(each)]));
  const lengths = [...tried.keys()].sort((a, b) => a - b);
  const [low, high] = [lengths[0], lengths.at(-1)];
  const shift = lengths.find((length) => length > 0) ?? 1;
  const scale = (length) => Math.log2(length + shift);
  const place = axis(low, high, 0, 1, scale);
  box.hidden = false;
  plot(box.querySelector("figure"), {
    name: `${headlineName} by the length of the memory`,
    series: [{ points: lengths.map((length) => [length, tried.get(length)]), dots: true }],
    x: { low, high, ticks: lengths, label: "tokens of memory", scale },
    y: { label: headlineName },
    at: (part) => lengths.reduce((best, length) =>
      (Math.abs(place(length) - part) < Math.abs(place(best) - part) ? length : best)),
    next: (length, direction) => lengths[Math.max(0, Math.min(lengths.length - 1,
      length === null ? 0 : lengths.indexOf(length) + direction))],
    textAt: (length) => (length === null
      ? `The text below was scored with a memory of ${count(result.settings.mem_len)}.`
      : `memory of ${count(length)}: ${headlineName} `
        + fixed(tried.get(length), headlineDigits)),
  });
}

/* Without a memory a segment's first tokens are predicted from little: the context is fragmented. */
function drawPositions() {
  const box = byId("positions");
  const of = (length) => data.positions.find(({ mem_len: each }) => each === length);
  const shown = of(result.settings.mem_len);
  const curves = [shown, ...(of(0) && of(0) !== shown ? [of(0)] : [])];
  const { tgt_len: high, nats: { length: parts } } = shown;
  const place = (part) => Math.floor(part * high / parts) + 1;
  const partAt = (position) => Math.min(parts - 1, Math.floor((position - 1) * parts / high));
  const within = (position) => Math.max(1, Math.min(high, position));
  box.hidden = false;
  plot(box.querySelector("figure"), {
    name: `nats by the place in a segment of ${count(high)}`,
    series: curves.map(({ nats }) => ({
      points: nats.map((value, part) => [place(part), value ?? NaN]), dots: parts < 20 })),
    x: { low: 1, high, ticks: [...new Set([1, Math.ceil(high / 2), high])],
      label: `${unit}s of the segment that are known` },
    y: { label: `nats per ${unit}` },
    at: (part) => within(Math.round(1 + part * (high - 1))),
    next: (position, direction) => place(partAt(within(position === null ? 1
      : place(partAt(position)) + direction * Math.ceil(high / parts)))),
    textAt: (position) => (position === null
      ? curves.map(({ mem_len: length }) => `memory of ${count(length)}`).join(", beside ")
      : `${count(position)} known: ` + curves.map(({ mem_len: length, nats }) =>
        `${fixed(nats[partAt(position)] ?? NaN, 3)} with a memory of ${count(length)}`).join(", ")),
  });
}

/* A figure for each model of --recl. */
function drawRecl() {
  const box = byId("recl");
  box.hidden = false;
  box.querySelectorAll("figure").forEach((figure) => figure.remove());
  for (const { model, lengths, steps } of data.recl) {
    const figure = box.appendChild(element("figure", { class: "plot" }));
    const at = steps.map((step) => step.mem_len);
    const shift = at.find((length) => length > 0) ?? 1;
    const scale = (length) => Math.log2(length + shift);
    const place = axis(at[0], at.at(-1), 0, 1, scale);
    const shares = lengths.map(({ share }) => `${100 * share} %`);
    plot(figure, {
      name: `gain of the next length, of ${baseName(model)}`,
      series: shares.map((_, r) => ({
        points: steps.map((step) => [step.mem_len, 100 * step.gains[r]]), dots: true })),
      x: { low: at[0], high: at.at(-1), ticks: at, label: "tokens of memory", scale },
      y: { label: "% of the perplexity" },
      at: (part) => at.reduce((best, length) =>
        (Math.abs(place(length) - part) < Math.abs(place(best) - part) ? length : best)),
      next: (length, direction) => at[Math.max(0, Math.min(at.length - 1,
        length === null ? 0 : at.indexOf(length) + direction))],
      textAt: (length) => {
        const step = steps.find(({ mem_len: from }) => from === length);
        return `${baseName(model)}: ` + shares.map((share, r) => (step
          ? `${fixed(100 * step.gains[r], 2)} % of the hardest ${share}`
          : `${lengths[r].length === null ? "none" : count(lengths[r].length)} of the hardest ${share}`))
          .join(", ");
      },
    });
  }
}

/* ---- Items -------------------------------------------------------------------------------- */

/* More rows than this take a browser long. */
const MOST_ITEMS = 5000;

function preferenceHeadline({ prefer, over, items, share, interval, ties, difference,
  difference_standard_error: error }) {
  const [low, high] = interval.map((part) => fixed(part && 100 * part, 1));
  return headline(`${visible(prefer)} rather than ${visible(over)}`, fixed(share && 100 * share, 1),
    `% of ${count(items)} items`, [`95 % interval ${low} to ${high}`, `${count(ties)} ties`,
      `${visible(over)} less ${visible(prefer)} ${fixed(difference, 3)}`
      + `${error === null ? "" : ` ±\u00a0${fixed(error, 3)}`} nats`]);
}

/* A region has the colour of the mean of its tokens, and its sum in bits. */
function regionCells([text, tokens, nats]) {
  const step = Math.max(0, Math.min(STEPS - 1, Math.floor(nats / tokens / NATS_A_STEP)));
  return [element("b", { class: tokens > 0 ? `s${step}` : "context" },
    visible(text).trim() || (text === "" ? "end" : "\u00a0")),
  element("small", {}, tokens > 0 ? (nats / Math.LN2).toFixed(2) : "-")];
}

/* A row for each text; a click goes to its tokens. */
function drawItems() {
  const box = byId("items");
  const shown = data.items.slice(0, MOST_ITEMS);
  box.hidden = false;
  box.querySelector("p").textContent = "Bits of each region, in the colour of its mean per token. "
    + `${shown.length < result.items.texts ? "The first " : ""}${count(shown.length)} of `
    + `${count(result.items.texts)} texts. Click a text to go to its tokens.`;
  box.querySelector("table").append(...shown.map(({ at, item, condition, regions }) => {
    const text = element("td", { tabindex: 0, role: "link" }, ...regions.flatMap(regionCells));
    text.addEventListener("click", () => jump(at));
    text.addEventListener("keydown", ({ key }) => key === "Enter" && jump(at));
    return element("tr", {}, element("th", { scope: "row" }, visible(item ?? "-")),
      element("td", {}, visible(condition ?? "-")), text);
  }));
  if (result.items.preference?.items > 0) {
    byId("headlines").append(preferenceHeadline(result.items.preference));
  }
}

/* ---- Start -------------------------------------------------------------------------------- */

function drawPlots() {
  drawLegend();
  drawCourse();
  if (results.length > 1) {
    drawSweep();
  }
  if (data.positions) {
    drawPositions();
  }
  if (data.recl) {
    drawRecl();
  }
}

function start() {
  const name = result.file === "-" ? "standard input" : baseName(result.file);
  document.title = `${name} - txl ppl`;
  byId("file").textContent = name;
  byId("headlines").append(...(compare ? [differenceHeadline()] : []), modelHeadline(result, models[0]),
    ...(compare ? [modelHeadline(compare, models[1])] : []));
  drawFigures();
  addTheme();
  if (compare) {
    addViews();
  }
  buildText();
  listen();
  if (data.items) {
    drawItems();
  }
  /* A sweep is about it; otherwise it is one of all figures. */
  if (data.positions?.length === 1) {
    const all = document.querySelector("header details");
    all.append(byId("positions"));
    all.addEventListener("toggle", drawPositions);
  }
  const shown = models[0].counts[n];
  if (shown < result.predicted) {
    byId("cut").textContent =
      `The first ${count(shown)} of ${count(result.predicted)} scored tokens.`;
    byId("cut").hidden = false;
  }
  drawPlots();
  addEventListener("resize", drawPlots);
}

start();
