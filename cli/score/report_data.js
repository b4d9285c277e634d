/* A report's data: the tokens of the text, the models' results for them, and the cells that show
 * them.  report.h describes the data in the page. */
"use strict";

/* ---- Decoding ----------------------------------------------------------------------------- */

function bytesOf(part) {
  const text = atob(part.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    bytes[i] = text.charCodeAt(i);
  }
  return bytes;
}

/* `n` numbers of `size` bytes each, the lowest byte first. */
function numbersOf(bytes, offset, n, size) {
  const numbers = new Uint32Array(n);
  for (let i = 0, at = offset; i < n; i++) {
    for (let byte = 0; byte < size; byte++, at++) {
      numbers[i] |= bytes[at] << (8 * byte);
    }
  }
  return numbers;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/* The text, or null where the bytes are no UTF-8. */
function decoded(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

function escaped(bytes) {
  return Array.from(bytes, (byte) => (byte > 0x20 && byte < 0x7f
    ? String.fromCharCode(byte)
    : `\\x${byte.toString(16).toUpperCase().padStart(2, "0")}`)).join("");
}

function spelled(bytes) {
  const text = decoded(bytes);
  return text === null ? escaped(bytes) : visible(text);
}

/* ---- The data ----------------------------------------------------------------------------- */

function parts(name) {
  return [...document.querySelectorAll(`script.${name}`)];
}

const { n_token: nToken, eos, id_bytes: idBytes, n_top: nTop, results } = data;

/* Tokens of a chunk; the last may have fewer. */
const CHUNK = data.chunk;

const marked = data.unit === "piece";
const words = data.unit !== "character";

/* Blanks separate words; pieces contain the blank, as this mark. */
const blank = words && !marked ? " " : "";
const MARK = /\u2581/g;
const unit = words ? "token" : "character";

/* The id that ends a line, if there is one. */
const boundary = data.line_pairs ? -1 : eos;

/* The spellings by id, and the bytes of symbols that stand for a byte. */
const symbols = new Map();
const byteOf = new Map();

/* The text, [n] each. */
let n = 0;
let ids;
let lineEnds;

const { compare, ...result } = results[data.shown];

/* Each model's results: nats[n], ranks[n] from 0, and for token i the sum and the number of the
 * nats before it, so that the mean over any range is one division. */
const models = (compare ? [data.model, compare.model] : [data.model])
  .map((path) => ({ name: baseName(path) }));

/* The byte that a symbol is the name of, or null: decimal where all are bytes, <0x31> of pieces. */
function byteNamed(symbol) {
  if (data.bytes) {
    return /^\d{1,3}$/.test(symbol) ? Number(symbol) : null;
  }
  return marked && /^<0x[0-9A-F]{2}>$/.test(symbol) ? parseInt(symbol.slice(3, 5), 16) : null;
}

function readSymbols() {
  const bytes = bytesOf(parts("symbols")[0]);
  for (let at = 0; at < bytes.length;) {
    const [id, length] = numbersOf(bytes, at, 2, 4);
    let symbol = spelled(bytes.subarray(at + 8, at + 8 + length));
    const byte = byteNamed(symbol);
    if (byte !== null) {
      byteOf.set(id, byte);
      symbol = spelled(Uint8Array.of(byte));
    } else if (marked && id !== boundary) {
      symbol = symbol.replace(MARK, " ");
    } else if (symbol === data.space) {
      symbol = " ";
    } else if (id === boundary) {
      symbol = "↵";
    }
    symbols.set(id, symbol);
    at += 8 + length;
  }
}

function readTokens() {
  const chunks = parts("tokens").map(bytesOf);
  const lengths = chunks.map((bytes) =>
    bytes.length / (models.length * (4 + idBytes) + idBytes + 1));
  n = lengths.reduce((sum, length) => sum + length, 0);
  ids = new Uint32Array(n);
  lineEnds = new Uint8Array(n);
  for (const model of models) {
    model.nats = new Float32Array(n);
    model.ranks = new Uint32Array(n);
  }
  let first = 0;
  chunks.forEach((bytes, i) => {
    let at = 0;
    for (const model of models) {
      model.nats.set(new Float32Array(bytes.buffer, at, lengths[i]), first);
      at += 4 * lengths[i];
    }
    const numbers = () => {
      const list = numbersOf(bytes, at, lengths[i], idBytes);
      at += idBytes * lengths[i];
      return list;
    };
    ids.set(numbers(), first);
    for (const model of models) {
      model.ranks.set(numbers(), first);
    }
    lineEnds.set(bytes.subarray(at), first);
    first += lengths[i];
  });
}

/* The source's text for each <unk>, by token. */
const surfaces = new Map();

function readSurfaces() {
  for (const bytes of parts("surfaces").map(bytesOf)) {
    for (let at = 0; at < bytes.length;) {
      const [token, length] = numbersOf(bytes, at, 2, 4);
      surfaces.set(token, spelled(bytes.subarray(at + 8, at + 8 + length)));
      at += 8 + length;
    }
  }
}

function addUp(model) {
  model.sums = new Float64Array(n + 1);
  model.counts = new Uint32Array(n + 1);
  for (let i = 0; i < n; i++) {
    model.sums[i + 1] = model.sums[i] + (scored(i) ? model.nats[i] : 0);
    model.counts[i + 1] = model.counts[i] + (scored(i) ? 1 : 0);
  }
}

function scored(i) {
  return !Number.isNaN(models[0].nats[i]);
}

/* Bits of a token, on average from `first` to before `end`. */
function bits(model, first, end) {
  return (model.sums[end] - model.sums[first]) / (model.counts[end] - model.counts[first])
    / Math.LN2;
}

/* The likeliest tokens in the place of token `i`, of each model. */
let opened = { chunk: -1 };

function alternatives(i) {
  const chunk = Math.floor(i / CHUNK);
  if (opened.chunk !== chunk) {
    const bytes = bytesOf(parts("alternatives")[chunk]);
    const length = bytes.length / (idBytes + 2);
    opened = {
      chunk,
      ids: numbersOf(bytes, 0, length, idBytes),
      surprises: numbersOf(bytes, length * idBytes, length, 2),
    };
  }
  const inChunk = Math.min(CHUNK, n - chunk * CHUNK);
  return models.map((_, number) => Array.from({ length: nTop }, (__, rank) => {
    const at = (number * inChunk + i - chunk * CHUNK) * nTop + rank;
    return { rank, id: opened.ids[at], nats: opened.surprises[at] / 2048 };
  }));
}

/* ---- Cells: what is seen as one, a token or the bytes of a character ---------------------- */

/* joined[i]: byte i continues the character of the byte before. */
let joined = null;

function joinBytes() {
  joined = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    const lead = byteOf.get(ids[i]) ?? 0;
    const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
    if (length > 1 && i + length <= n && decoded(bytesAt(i, length)) !== null) {
      joined.fill(1, i + 1, i + length);
      i += length - 1;
    }
  }
}

function bytesAt(first, length) {
  return Uint8Array.from(ids.subarray(first, first + length), (id) => byteOf.get(id) ?? 0);
}

function cellOf(i) {
  while (joined?.[i]) {
    i--;
  }
  return i;
}

function cellEnd(i) {
  do {
    i++;
  } while (joined?.[i]);
  return i;
}

function cellText(i) {
  const length = cellEnd(i) - i;
  const text = length > 1 ? visible(decoded(bytesAt(i, length)))
    : surfaces.get(i) ?? symbols.get(ids[i]);
  /* Where a line begins, the blank of its first piece is not in the source. */
  const dropped = marked && text.length > 1 && text[0] === " " && (i === 0 || linesBefore(i) > 0);
  return dropped ? text.slice(1) : text;
}

/* Line ends in the text before token `i`; ids without lines still have their boundaries. */
function linesBefore(i) {
  return lineEnds[i] || (i > 0 && ids[i - 1] === boundary ? 1 : 0);
}

/* The text before a cell; where a new line begins anyway, it has one line end less. */
function gap(i, begins) {
  const lines = linesBefore(i);
  if (lines > 0 || begins) {
    return "\n".repeat(Math.max(0, lines - (begins ? 1 : 0)));
  }
  return blank;
}

/* The text from one token to before another, in one line. */
function excerpt(first, end) {
  let text = "";
  for (let i = cellOf(Math.max(0, first)); i < Math.min(n, end); i = cellEnd(i)) {
    text += (linesBefore(i) ? " " : blank) + (ids[i] === boundary ? "" : cellText(i));
  }
  return text.replace(/\s+/g, " ").trim();
}

readSymbols();
readTokens();
readSurfaces();
models.forEach(addUp);
if (byteOf.size > 0) {
  joinBytes();
}
