/* Read: the surprisal of a text, its memory, and pairs of texts. */
"use strict";

const MOST_TEXT = 1e6;

/* The text as bytes, its tokens as the server has them, and an element for each. */
let bytes = new Uint8Array();
let tokens = [];
let cells = [];

/* The nats with less memory, or by the second model: null, or a list. */
let compared = null;
let scoring = null;
let pointed = -1;

const decodeBytes = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));

/* ---- Colours ------------------------------------------------------------------------------ */

function differenceClass(difference) {
  const step = Math.round(difference / (NATS_A_STEP / 2));
  return `d${MIDDLE - Math.max(-MIDDLE, Math.min(MIDDLE, step))}`;
}

function paint(i) {
  cells[i].className = compared?.[i] === undefined
    ? surpriseClass(tokens[i].nats) : differenceClass(compared[i] - tokens[i].nats);
}

function drawReadLegend() {
  const [letter, steps, low, high] = compared
    ? ["d", DIFFERENCES, ...(byId("second").checked ? ["this model is better", "the other is"] : ["memory helped", "memory hurt"])]
    : ["s", STEPS, "likely", `1 in ${count(Number(Math.exp(STEPS * NATS_A_STEP).toPrecision(2)))}+`];
  const ticks = [[0, low], [1, high]].map(([place, text]) => {
    const tick = element("span", {}, text);
    tick.style.left = `${100 * place}%`;
    return tick;
  });
  byId("legend").replaceChildren(
    element("div", { class: "steps" },
      ...Array.from({ length: steps }, (_, i) => element("i", { class: letter + i }))),
    element("div", { class: "ticks" }, ...ticks));
  byId("legend").setAttribute("aria-label", `Colour: from ${low} to ${high}`);
}

/* ---- Reading ------------------------------------------------------------------------------ */

function sumOf(list) {
  return list.reduce((sum, { nats }) => sum + nats, 0);
}

function showSums() {
  const nats = tokens.map((token) => token.nats);
  const n = nats.length;
  const sum = sumOf(tokens);
  const mean = sum / n;
  const deviation = Math.sqrt(nats.reduce((squares, x) => squares + (x - mean) ** 2, 0) / (n - 1) / n);
  const read = tokens.length > 0 ? tokens.at(-1).offset + tokens.at(-1).length : 0;
  const characters = [...decodeBytes(0, read)].length;
  byId("sums").textContent = n === 0 ? "" :
    `${(bits(sum) / characters).toFixed(4)} bits per character ± ${(bits(deviation) * n / characters).toFixed(4)}`
    + ` · ${bits(sum).toFixed(1)} bits · ${count(n)} tokens`;
}

/* Adds cells for new tokens; what is between them belongs to none. */
function addTokens(list) {
  const parts = document.createDocumentFragment();
  for (const token of list) {
    const before = tokens.at(-1);
    const from = before ? before.offset + before.length : 0;
    if (token.offset > from) {
      parts.append(decodeBytes(from, token.offset));
    }
    const cell = document.createElement("b");
    /* Where a line wraps, the blank before a word has no colour. */
    const [, blank, word] = /^( *)(.*)$/su.exec(decodeBytes(Math.max(from, token.offset), token.offset + token.length));
    cell.append(...(word === "" || blank === "" ? [blank + word] : [blank, element("span", {}, word)]));
    cell.dataset.token = tokens.length;
    tokens.push(token);
    cells.push(cell);
    paint(tokens.length - 1);
    parts.append(cell);
  }
  byId("text").append(parts);
}

async function readText() {
  const text = byId("source").value;
  bytes = new TextEncoder().encode(text);
  tokens = [];
  cells = [];
  compared = null;
  pointed = -1;
  byId("text").replaceChildren();
  byId("memory").hidden = true;
  byId("second-line").hidden = true;
  byId("second").checked = false;
  complain(null);
  if (bytes.length > MOST_TEXT) {
    complain(new Error(`The text has ${count(bytes.length)} bytes; the page takes ${count(MOST_TEXT)}.`));
    return;
  }
  scoring?.abort();
  scoring = new AbortController();
  byId("score-stop").hidden = false;
  drawReadLegend();
  try {
    /* A bar is a bar here, not the edge of a region. */
    const body = { text: text.replaceAll("|", "\\|"), no_eos: true, logprobs: Math.min(5, meta.n_token) };
    for await (const event of events("/v1/score", body, scoring.signal)) {
      addTokens(event.tokens ?? []);
      showSums();
    }
    showMemory();
    byId("second-line").hidden = !meta.compared;
  } catch (error) {
    complain(error);
  }
  byId("score-stop").hidden = true;
}

/* ---- The token ---------------------------------------------------------------------------- */

function spokenToken(i) {
  const token = tokens[i];
  return `${token.text.trim() || token.token}, ${bits(token.nats).toFixed(1)} bits, rank ${token.rank}`;
}

function panelFigures(figures) {
  return element("dl", {}, ...figures.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

function topList(token) {
  const top = Object.entries(token.top ?? {}).sort((a, b) => b[1] - a[1]);
  const own = token.text;
  return element("ol", {}, ...top.map(([text, logprob], i) => {
    const bar = element("i");
    bar.style.width = `${100 * Math.exp(logprob)}%`;
    return element("li", { class: text === own ? "itself" : "" },
      element("span", { class: "place" }, `${text === own ? token.rank : i + 1}`),
      element("span", { class: "symbol" }, visible(text.replace("\n", "↵"))),
      element("span", { class: "track" }, bar),
      element("span", { class: "amount" }, percent(Math.exp(logprob))));
  }));
}

/* The tokens of the word at i: from one that begins behind white space to the next. */
function wordAt(i) {
  const begins = (k) => k === 0 || /^\s/u.test(cells[k].textContent) || /\s$/u.test(cells[k - 1].textContent)
    || tokens[k].offset > tokens[k - 1].offset + tokens[k - 1].length;
  let first = i;
  let end = i + 1;
  while (!begins(first)) {
    first--;
  }
  while (end < tokens.length && !begins(end)) {
    end++;
  }
  return [first, end];
}

/* The bits of a word whose first piece has the blank before it, without what it costs that a word begins, with
 * what it costs that the next one does (Pimentel and Meister 2024); as bits_corrected. */
function wordBits(first, end) {
  return bits(sumOf(tokens.slice(first, end)) + tokens[first].begins - (tokens[end]?.begins ?? 0));
}

function describeRange(first, end, name, more = []) {
  const part = tokens.slice(first, end);
  const sum = bits(sumOf(part));
  cells.forEach((cell, i) => cell.classList.toggle("selected", i >= first && i < end));
  byId("token").replaceChildren(
    element("div", { class: "top" }, element("p", { class: "name" }, visible(name))),
    panelFigures([["Bits", sum.toFixed(2)], ["Tokens", count(part.length)],
      ["Bits per token", (sum / part.length).toFixed(2)], ...more]));
}

function describeToken(i) {
  pointed = i;
  cells.forEach((cell, k) => {
    cell.classList.toggle("chosen", k === i);
    cell.classList.remove("selected");
  });
  if (byId("by-word").checked) {
    const [first, end] = wordAt(i);
    describeRange(first, end, cells.slice(first, end).map((cell) => cell.textContent).join("").trim(),
      tokens[i].begins === undefined ? [] : [["With the blank after it", wordBits(first, end).toFixed(2)]]);
    return;
  }
  const token = tokens[i];
  const figures = [["Bits", bits(token.nats).toFixed(2)], ["Probability", percent(Math.exp(-token.nats))],
    ["Rank", count(token.rank)], ["Entropy", bits(token.entropy).toFixed(2)]];
  if (compared) {
    figures[3] = [byId("second").checked ? `By ${visible(meta.compared)}` : "With less memory", bits(compared[i]).toFixed(2)];
  }
  byId("token").replaceChildren(
    element("div", { class: "top" }, element("p", { class: "name" }, visible(token.text.trim() || token.token))),
    panelFigures(figures), topList(token));
}

function onTextKey(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by && tokens.length > 0) {
    event.preventDefault();
    describeToken(Math.max(0, Math.min(tokens.length - 1, pointed + by)));
    cells[pointed].scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter" && pointed >= 0) {
    speak(spokenToken(pointed));
  }
}

/* A passage that was dragged over. */
function onSelection() {
  const selection = document.getSelection();
  if (selection.isCollapsed || !byId("text").contains(selection.anchorNode)) {
    return;
  }
  const range = selection.getRangeAt(0);
  const inside = cells.flatMap((cell, i) => (range.intersectsNode(cell) ? [i] : []));
  if (inside.length > 1) {
    const text = selection.toString().trim();
    describeRange(inside[0], inside.at(-1) + 1, text.length > 60 ? `${text.slice(0, 60)}…` : text);
  }
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* The bits of the text with each length of memory that was tried. */
const tried = new Map();
let sweeping = null;

function drawMemory() {
  const points = [...tried].sort((a, b) => a[0] - b[0]);
  const lengths = points.map(([length]) => length);
  byId("memory").querySelector("figure").hidden = points.length < 2;
  if (points.length < 2) {
    return;
  }
  plot(byId("memory").querySelector("figure"), {
    name: "Bits by memory",
    series: [{ points, dots: true }],
    x: { low: 0, high: meta.mem_len, ticks: [0, meta.mem_len / 2, meta.mem_len], label: "memory" },
    y: { label: "bits" },
    at: (part) => lengths.reduce((best, length) =>
      (Math.abs(length - part * meta.mem_len) < Math.abs(best - part * meta.mem_len) ? length : best)),
    next: (x, by) => lengths[Math.max(0, Math.min(lengths.length - 1, (x === null ? -1 : lengths.indexOf(x)) + by))],
    textAt: (x) => (x === null ? "" : `${count(x)} tokens of memory: ${tried.get(x).toFixed(1)} bits`),
  });
}

/* Within a segment every token sees all before it: memory matters to longer texts. */
function showMemory() {
  tried.clear();
  tried.set(meta.mem_len, bits(sumOf(tokens)));
  byId("memory").hidden = meta.mem_len === 0 || tokens.length < meta.tgt_len;
  byId("mem-len").max = meta.mem_len;
  byId("mem-len").value = meta.mem_len;
  byId("mem-len-value").textContent = `${count(meta.mem_len)} tokens`;
  byId("gains").disabled = true;
  drawMemory();
}

/* Colours by the difference to the second model. */
async function showSecond() {
  sweeping?.abort();
  sweeping = new AbortController();
  byId("mem-len").value = meta.mem_len;
  byId("mem-len-value").textContent = `${count(meta.mem_len)} tokens`;
  compared = null;
  try {
    if (byId("second").checked) {
      const answer = await ask("/v1/score",
        { text: new TextDecoder().decode(bytes).replaceAll("|", "\\|"), no_eos: true, compare: true }, sweeping.signal);
      compared = answer.items[0].tokens.map((token) => token.nats);
      const difference = bits(answer.items[0].nats - sumOf(tokens));
      byId("sums").textContent += ` · ${visible(meta.compared)} ${difference >= 0 ? "+" : "−"}${Math.abs(difference).toFixed(1)} bits`;
    } else {
      showSums();
    }
    cells.forEach((_, i) => paint(i));
    byId("gains").disabled = true;
    drawReadLegend();
  } catch (error) {
    complain(error);
  }
}

async function sweep() {
  const length = Number(byId("mem-len").value);
  byId("second").checked = false;
  showSums();
  sweeping?.abort();
  sweeping = new AbortController();
  try {
    if (length === meta.mem_len) {
      compared = null;
    } else {
      const text = new TextDecoder().decode(bytes).replaceAll("|", "\\|");
      const answer = await ask("/v1/score", { text, no_eos: true, mem_len: length }, sweeping.signal);
      compared = answer.items[0].tokens.map((token) => token.nats);
      tried.set(length, bits(answer.items[0].nats));
    }
    cells.forEach((_, i) => paint(i));
    byId("gains").disabled = !compared;
    drawReadLegend();
    drawMemory();
  } catch (error) {
    complain(error);
  }
}

/* Goes along the ten tokens that the memory helped most. */
let gain = -1;

function showGain() {
  const largest = tokens.map((token, i) => [compared[i] - token.nats, i])
    .sort((a, b) => b[0] - a[0]).slice(0, 10);
  gain = (gain + 1) % largest.length;
  describeToken(largest[gain][1]);
  cells[pointed].scrollIntoView({ block: "center" });
  byId("memory-told").textContent =
    `${gain + 1} of ${largest.length}: ${bits(largest[gain][0]).toFixed(2)} bits fewer with the whole memory`;
}

/* ---- Pairs -------------------------------------------------------------------------------- */

let pairs = [];

/* As RFC 4180 has it. */
function field(value) {
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function readConditions() {
  return byId("conditions").value.split("\n").filter((line) => line.trim() !== "").map((line, i) => {
    const [, condition, text] = /^(.*?)(?:\t| {2,})(.*)$/.exec(line) ?? [null, String(i + 1), line];
    return { item: 1, condition: condition.trim(), text: text.trim() };
  });
}

function regionCell(region) {
  return element("td", {},
    element("span", { class: surpriseClass(region.nats / Math.max(1, region.tokens)) }, visible(region.text.trim())),
    element("br"), `${region.bits.toFixed(2)} bits`);
}

function drawPairs() {
  const rows = pairs.map((pair) => element("tr", {}, element("th", { scope: "row" }, visible(pair.condition)),
    ...pair.regions.filter(({ region }) => region > 0).map(regionCell),
    element("td", {}, `${pair.bits.toFixed(2)} in all`)));
  const figure = element("figure", { class: "plot" });
  byId("regions").replaceChildren(element("table", {}, ...rows), figure);
  const series = pairs.slice(0, 2).map((pair) => ({
    points: pair.regions.filter(({ region }) => region > 0).map((region) => [region.region, region.bits]), dots: true }));
  const most = Math.max(...series.map(({ points }) => points.length));
  if (most > 1) {
    const places = Array.from({ length: most }, (_, i) => i + 1);
    plot(figure, {
      name: "Bits by region", series,
      x: { low: 1, high: most, ticks: places, label: "region" },
      y: { label: "bits" },
      at: (part) => Math.round(1 + part * (most - 1)),
      next: (x, by) => Math.max(1, Math.min(most, (x ?? 1 - by) + by)),
      textAt: (x) => (x === null ? "" : pairs.slice(0, 2).map((pair) =>
        `${visible(pair.condition)}: ${pair.regions.find(({ region }) => region === x)?.bits.toFixed(2) ?? "-"} bits`)
        .join("\n")),
    });
  }
}

/* The rows of txl surprisal --per region, which has none for what closes a text. */
function pairsTable() {
  const rows = pairs.flatMap((pair) => pair.regions.filter(({ region }) => region > 0).map((region) => [pair.item,
    pair.condition, region.region, region.text, region.words, region.tokens, region.unknown, region.bits, region.nats]));
  return [["item", "condition", "region", "text", "words", "tokens", "unknown", "bits", "nats"], ...rows]
    .map((row) => `${row.map(field).join(",")}\n`).join("");
}

async function comparePairs() {
  complain(null);
  try {
    const items = readConditions();
    const answer = await ask("/v1/score", { items });
    pairs = answer.items;
    drawPairs();
    byId("csv").disabled = false;
    byId("pairs-command").hidden = false;
    byId("pairs-command").textContent =
      `printf '%s\\n' item,condition,text ${items.map(({ item, condition, text }) =>
        quoted([item, condition, text].map(field).join(","))).join(" ")} > items.csv\n`
      + `txl surprisal${modelOption()} --per region items.csv > regions.csv`;
  } catch (error) {
    complain(error);
  }
}

/* ------------------------------------------------------------------------------------------- */

function startReading() {
  byId("score").addEventListener("click", readText);
  byId("score-stop").addEventListener("click", () => scoring?.abort());
  byId("source").addEventListener("paste", () => setTimeout(readText));
  takeFiles(byId("source"), readText);
  byId("text").addEventListener("click", (event) => {
    const cell = event.target.closest("b");
    if (cell && document.getSelection().isCollapsed) {
      describeToken(Number(cell.dataset.token));
    }
  });
  byId("text").addEventListener("keydown", onTextKey);
  document.addEventListener("selectionchange", onSelection);
  byId("mem-len").addEventListener("input", () => {
    byId("mem-len-value").textContent = `${count(Number(byId("mem-len").value))} tokens`;
  });
  byId("mem-len").addEventListener("change", sweep);
  byId("gains").addEventListener("click", showGain);
  byId("second").addEventListener("change", showSecond);
  byId("second-name").textContent = visible(meta.compared ?? "");
  byId("compare").addEventListener("click", comparePairs);
  byId("csv").addEventListener("click", () => offer("regions.csv", "text/csv", pairsTable()));
  drawReadLegend();
}
