/* Write: a text that a person and the model write by turns. */
"use strict";

const editor = byId("editor");

/* The text as it was last seen, and the parts of it that the model wrote and nobody edited. */
let seen = "";
let made = [];

/* Each turn: where its text begins, its versions, and which of them is to stand there. */
let turns = [];

const versionOf = (turn) => turn.versions[turn.current];

/* Whether nobody has edited the turn, or all of it is back. */
const stands = (turn) => seen.startsWith(versionOf(turn), turn.begin);

/* What runs, to be stopped. */
let running = null;

/* What the model learned from the person's text: its name, or null; and what runs to learn it. */
let learned = null;
let lesson = null;

/* The surprise of each token: { begin, end, nats }, of the text `colouredText`. */
let coloured = [];
let colouredText = null;

/* ---- The sheet ---------------------------------------------------------------------------- */

/* Adds a part that the model wrote. */
function addMade(begin, end) {
  made = [...made, { begin, end }].filter((part) => part.begin < part.end).sort((a, b) => a.begin - b.begin)
    .reduce((joined, part) => {
      const before = joined.at(-1);
      if (before && before.end >= part.begin) {
        before.end = Math.max(before.end, part.end);
        return joined;
      }
      return [...joined, { ...part }];
    }, []);
}

/* What an edit of text [begin, end) into `length` characters leaves of the model's parts. */
function shiftMade(begin, end, length) {
  const shift = length - (end - begin);
  for (const turn of turns) {
    turn.begin += turn.begin >= end && begin < turn.begin ? shift : 0;
  }
  made = made.flatMap((part) => {
    if (part.end <= begin) {
      return [part];
    }
    if (part.begin >= end) {
      return [{ begin: part.begin + shift, end: part.end + shift }];
    }
    return [{ begin: part.begin, end: begin }, { begin: end + shift, end: part.end + shift }]
      .filter((rest) => rest.begin < rest.end);
  });
}

/* Sees what was edited. */
function see() {
  const text = editor.value;
  let begin = 0;
  while (begin < text.length && begin < seen.length && text[begin] === seen[begin]) {
    begin++;
  }
  let same = 0;
  while (same < Math.min(text.length, seen.length) - begin
    && text[text.length - 1 - same] === seen[seen.length - 1 - same]) {
    same++;
  }
  shiftMade(begin, seen.length - same, text.length - same - begin);
  seen = text;
  /* The browser's undo and redo bring turns back. */
  turns.filter(stands).forEach((turn) => addMade(turn.begin, turn.begin + versionOf(turn).length));
  draw();
  showTurn();
}

/* The tokens that are coloured: those of which the text is still as it was read, without the blanks
 * before words. */
function shownColours() {
  if (!byId("colours").checked || colouredText === null) {
    return [];
  }
  let same = 0;
  while (same < seen.length && seen[same] === colouredText[same]) {
    same++;
  }
  return coloured.filter(({ end }) => end <= same)
    .map(({ begin, end, nats }) => ({ begin: begin + /^ */.exec(seen.slice(begin, end))[0].length, end, nats }))
    .filter(({ begin, end }) => begin < end);
}

/* Draws the marks under the text. */
function draw() {
  const edges = new Set([0, seen.length]);
  const shown = shownColours();
  for (const { begin, end } of [...made, ...shown]) {
    edges.add(begin);
    edges.add(end);
  }
  const places = [...edges].sort((a, b) => a - b);
  const parts = [];
  let token = 0;
  let part = 0;
  for (let i = 0; i + 1 < places.length; i++) {
    const at = places[i];
    while (token < shown.length && shown[token].end <= at) {
      token++;
    }
    while (part < made.length && made[part].end <= at) {
      part++;
    }
    const classes = [
      ...(shown[token]?.begin <= at ? [surpriseClass(shown[token].nats)] : []),
      ...(made[part]?.begin <= at ? ["made"] : [])];
    const text = seen.slice(at, places[i + 1]);
    parts.push(classes.length > 0 ? element("span", { class: classes.join(" ") }, text) : text);
  }
  /* A line end at the end has no height of its own. */
  byId("under").replaceChildren(...parts, "\n");
}

/* Replaces text [begin, end) so that the browser's own undo knows it; what stands there then is the
 * model's. */
function write(begin, end, text) {
  editor.focus();
  editor.setSelectionRange(begin, end);
  if (text === "") {
    if (begin < end) {
      document.execCommand("delete");
    }
  } else if (!document.execCommand("insertText", false, text)) {
    editor.setRangeText(text, begin, end, "end");
    see();
  }
  addMade(begin, begin + text.length);
  draw();
}

/* ---- What is asked ------------------------------------------------------------------------ */

function asLearned() {
  return learned === null ? {} : { learned };
}

function settings() {
  const whole = byId("whole-sentences").checked;
  const seed = byId("seed").value.trim();
  return {
    temperature: Number(byId("temperature").value),
    min_p: Number(byId("min-p").value),
    max_tokens: Number(byId("length").value),
    add_special_tokens: false,
    ...asLearned(),
    ...(whole ? { end: "sentence" } : {}),
    ...(/^\d+$/.test(seed) ? { seed: Number(seed) } : { seed: Math.floor(Math.random() * 2 ** 50) }),
  };
}

/* The text before the place, with a blank behind the last word if that is not to be continued. */
function promptAt(place) {
  const text = editor.value.slice(0, place);
  const blank = byId("new-word").checked && /[\p{L}\p{N}]$/u.test(text) ? " " : "";
  return { prompt: text + blank, blank };
}

/* The command that makes the same turn.  It would read a blank at the prompt's end as a token. */
function showCommand(body) {
  byId("last-seed").textContent = `Seed ${body.seed}`;
  byId("command").hidden = body.prompt.endsWith(" ") || learned !== null;
  byId("command").textContent = `txl generate${modelOption()} --prompt-text ${quoted(body.prompt)}`
    + ` -n ${body.max_tokens}${body.end ? " --end sentence" : ""} --temperature ${body.temperature}`
    + ` --min-p ${body.min_p} --seed ${body.seed} --no-echo`;
}

/* Runs a task that can be stopped, and tells what it fails with. */
async function run(task) {
  running?.abort();
  const own = new AbortController();
  running = own;
  byId("stop").hidden = false;
  complain(null);
  try {
    await task(own.signal);
  } catch (error) {
    complain(error);
  } finally {
    if (running === own) {
      running = null;
      byId("stop").hidden = true;
      see();
      colourSoon();
    }
  }
}

/* ---- Turns -------------------------------------------------------------------------------- */

/* The last turn, unless it was edited. */
function lastTurn() {
  const turn = turns.at(-1);
  return turn && stands(turn) ? turn : undefined;
}

function showTurn() {
  const turn = lastTurn();
  byId("another").disabled = byId("take-back").disabled = !turn;
  byId("versions").hidden = !turn || turn.versions.length < 2;
  if (turn) {
    byId("version").textContent = `${turn.current + 1} of ${turn.versions.length}`;
  }
}

/* Streams one more version of the turn into the text. */
async function stream(turn, signal) {
  const { prompt, blank } = promptAt(turn.begin);
  const body = { prompt, ...settings() };
  showCommand(body);
  const old = versionOf(turn) ?? "";
  const number = turn.versions.push(blank) - 1;
  turn.current = number;
  write(turn.begin, turn.begin + old.length, blank);
  for await (const event of events("/v1/completions", body, signal)) {
    const text = event.choices[0]?.text ?? "";
    if (text !== "") {
      const end = turn.begin + turn.versions[number].length;
      turn.versions[number] += text;
      write(end, end, text);
    }
  }
}

function goOn() {
  run(async (signal) => {
    const turn = { begin: editor.selectionEnd, versions: [], current: 0 };
    turns.push(turn);
    await stream(turn, signal);
  });
}

function another() {
  const turn = lastTurn();
  if (turn) {
    run((signal) => stream(turn, signal));
  }
}

function showVersion(turn, number) {
  const old = versionOf(turn);
  turn.current = number;
  write(turn.begin, turn.begin + old.length, turn.versions[number]);
  showTurn();
}

function step(by) {
  const turn = lastTurn();
  const number = turn ? turn.current + by : -1;
  if (turn && number >= 0 && number < turn.versions.length) {
    showVersion(turn, number);
  }
}

function takeBack() {
  running?.abort();
  const turn = lastTurn();
  if (turn) {
    turns.pop();
    write(turn.begin, turn.begin + versionOf(turn).length, "");
    see();
  }
}

/* Three ways at once: the weights are read once for them. */
function goOnInWays() {
  const begin = editor.selectionEnd;
  run(async (signal) => {
    const { prompt, blank } = promptAt(begin);
    const body = { prompt, n: 3, ...settings() };
    const answer = await ask("/v1/completions", body, signal);
    const versions = answer.choices.map((choice) => blank + choice.text);
    const turn = { begin, versions, current: 0 };
    byId("choices").replaceChildren(...versions.map((text, i) => {
      const button = element("button", { type: "button" }, text.trim().split("\n").map(visible).join("\n"));
      button.addEventListener("click", () => {
        byId("choices").replaceChildren();
        turns.push({ ...turn, current: i });
        write(begin, begin, text);
        showTurn();
      });
      return button;
    }));
    byId("choices").firstChild.focus();
    byId("last-seed").textContent = `Seed ${body.seed}`;
  });
}

/* Fills the gaps of the text, each a <mask>, from the last one on, so that the others stay where they are. */
function fillGaps() {
  run(async (signal) => {
    const text = editor.value;
    const { temperature, seed } = settings();
    const answer = await ask("/v1/fill", { text, temperature, seed }, signal);
    const before = new TextEncoder().encode(text);
    const unit = (offset) => new TextDecoder().decode(before.subarray(0, offset)).length;
    for (const { offset, length, text: piece } of answer.gaps.reverse()) {
      write(unit(offset), unit(offset + length), piece);
    }
    byId("last-seed").textContent = `Seed ${seed}`;
  });
}

/* ---- The tokens of the text --------------------------------------------------------------- */

/* Of an answer with echo: { begin, end, nats } in JavaScript's units. */
function tokensOf(choice) {
  const { text_offset: offsets, token_logprobs: own } = choice.logprobs;
  const places = [0];
  for (const character of choice.text) {
    places.push(places.at(-1) + character.length);
  }
  return offsets.map((offset, i) => ({
    begin: places[offset],
    end: places[offsets[i + 1] ?? places.length - 1],
    nats: own[i] === null ? NaN : -own[i],
  }));
}

async function readTokens(signal) {
  const text = editor.value;
  if (text !== colouredText) {
    const answer = await ask("/v1/completions",
      { prompt: text, max_tokens: 0, echo: true, logprobs: 0, add_special_tokens: false, ...asLearned() }, signal);
    coloured = tokensOf(answer.choices[0]);
    colouredText = text;
  }
  return coloured;
}

/* After some rest; the server goes on from what it has read. */
let rest = null;

function colourSoon() {
  clearTimeout(rest);
  if (!byId("colours").checked) {
    draw();
    return;
  }
  rest = setTimeout(async () => {
    if (!running && editor.value !== "") {
      try {
        await readTokens();
        draw();
      } catch (error) {
        complain(error);
      }
    }
  }, 400);
}

/* ---- Other words -------------------------------------------------------------------------- */

/* Takes another token in a place: what the model wrote behind it is written anew. */
function take(token, text) {
  const part = made.find(({ begin, end }) => begin <= token.begin && token.begin < end);
  const end = part ? part.end : token.end;
  closeCandidates();
  run(async (signal) => {
    turns = turns.filter((turn) => turn.begin + versionOf(turn).length <= token.begin);
    write(token.begin, end, text);
    const turn = { begin: token.begin, versions: [text], current: 0 };
    turns.push(turn);
    if (part && end > token.end) {
      const body = { prompt: editor.value.slice(0, token.begin + text.length), ...settings() };
      showCommand(body);
      for await (const event of events("/v1/completions", body, signal)) {
        const more = event.choices[0]?.text ?? "";
        if (more !== "") {
          const at = turn.begin + turn.versions[0].length;
          turn.versions[0] += more;
          write(at, at, more);
        }
      }
    }
  });
}

function candidateItem(token, text, logprob) {
  const bar = element("i");
  bar.style.width = `${100 * Math.exp(logprob)}%`;
  const more = element("small");
  const item = element("li", { role: "option", tabindex: "-1" },
    element("span", { class: "what" }, visible(text.replace("\n", "↵")), more),
    element("span", { class: "amount" }, percent(Math.exp(logprob))),
    element("span", { class: "track" }, bar));
  item.addEventListener("click", () => take(token, text));
  return { item, more, text };
}

function closeCandidates() {
  byId("candidates").hidden = true;
  editor.focus();
}

/* The ten likeliest in the place of the token at `place`, each with what would come next. */
async function showCandidates(place, focus) {
  try {
    const tokens = await readTokens();
    const token = tokens.find(({ begin, end }) => begin <= place && place < end)
      ?? { begin: editor.value.length, end: editor.value.length, nats: NaN };
    const prompt = editor.value.slice(0, token.begin);
    const first = await ask("/v1/completions",
      { prompt, max_tokens: 1, logprobs: Math.min(10, meta.n_token), temperature: 0, add_special_tokens: false,
        ...asLearned() });
    const top = Object.entries(first.choices[0].logprobs.top_logprobs[0]).sort((a, b) => b[1] - a[1]).slice(0, 10);
    const items = top.map(([text, logprob]) => candidateItem(token, text, logprob));
    byId("candidates-of").textContent = token.begin < token.end
      ? `Instead of “${visible(editor.value.slice(token.begin, token.end).trim())}”` : "Next";
    byId("candidates").querySelector("ol").replaceChildren(...items.map(({ item }) => item));
    byId("candidates").hidden = false;
    if (focus) {
      items[0].item.focus();
    }
    const next = await ask("/v1/completions", {
      prompt: items.map(({ text }) => prompt + text), max_tokens: 5, temperature: 0, add_special_tokens: false,
      ...asLearned() });
    next.choices.forEach((choice, i) => {
      items[i].more.textContent = visible(choice.text.replaceAll("\n", "↵"));
    });
  } catch (error) {
    complain(error);
  }
}

/* ---- Learning ------------------------------------------------------------------------------ */

/* Goes on with what was learned, or with the model as it is (null). */
function useLearned(name) {
  learned = name;
  colouredText = null;
  byId("unlearn").hidden = name === null;
  colourSoon();
}

async function learn() {
  const text = byId("lesson").value;
  complain(null);
  lesson?.abort();
  const own = new AbortController();
  lesson = own;
  byId("learn-stop").hidden = byId("learned-part").hidden = false;
  byId("learned-part").value = 0;
  useLearned(null);
  try {
    for await (const event of events("/v1/learn", { text }, own.signal)) {
      byId("learned-part").max = event.of;
      byId("learned-part").value = event.segments;
      byId("learned-told").textContent = `${count(event.segments)} of ${count(event.of)} segments`;
      if (event.id) {
        useLearned(event.id);
        byId("learned-told").textContent = `Learned ${count(event.segments)} segments, ${count(event.tokens)} tokens, `
          + `of ${(bits(event.nats) / event.tokens).toFixed(2)} bits each.`;
      }
    }
  } catch (error) {
    byId("learned-told").textContent = "Nothing is learned.";
    complain(error);
  }
  if (lesson === own) {
    lesson = null;
    byId("learn-stop").hidden = byId("learned-part").hidden = true;
  }
}

function unlearn() {
  useLearned(null);
  byId("learned-told").textContent = "The model is as it was.";
}

/* ---- The keyboard ------------------------------------------------------------------------- */

/* After Escape, Tab leaves the text as elsewhere. */
let leaving = false;

function onEditorKey(event) {
  const leaves = leaving;
  leaving = false;
  if (event.key === "Escape") {
    leaving = !running;
    running?.abort();
  } else if (event.key === "Tab" && !leaves && !event.ctrlKey && !event.altKey) {
    event.preventDefault();
    if (event.shiftKey) {
      takeBack();
    } else {
      goOn();
    }
  } else if (event.key === "ArrowDown" && event.altKey) {
    event.preventDefault();
    showCandidates(editor.selectionStart, true);
  }
}

function onCandidateKey(event) {
  const item = event.target.closest("li");
  if (event.key === "Escape") {
    closeCandidates();
  } else if (item && event.key === "Enter") {
    item.click();
  } else if (item && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    (event.key === "ArrowDown" ? item.nextSibling : item.previousSibling)?.focus();
  } else if (item && event.key === "s") {
    speak(item.textContent);
  }
}

function startWriting() {
  byId("temperature").value = meta.sampling.temperature;
  byId("min-p").value = meta.sampling.min_p ?? 0;
  byId("length").value = inWords ? 1 : 40;
  editor.addEventListener("input", () => {
    see();
    colourSoon();
  });
  editor.addEventListener("keydown", onEditorKey);
  editor.addEventListener("click", () => {
    if (editor.value !== "" && editor.selectionStart === editor.selectionEnd
      && editor.selectionStart < editor.value.length) {
      showCandidates(editor.selectionStart, false);
    }
  });
  byId("candidates").addEventListener("keydown", onCandidateKey);
  byId("learn").addEventListener("click", learn);
  byId("learn-stop").addEventListener("click", () => lesson?.abort());
  byId("unlearn").addEventListener("click", unlearn);
  takeFiles(byId("lesson"), () => {});
  byId("lesson-file").addEventListener("change", async () => {
    byId("lesson").value = await byId("lesson-file").files[0].text();
  });
  byId("colours").addEventListener("change", colourSoon);
  byId("go-on").addEventListener("click", goOn);
  byId("ways").addEventListener("click", goOnInWays);
  byId("another").addEventListener("click", another);
  byId("fill").addEventListener("click", fillGaps);
  byId("fill").hidden = !meta.fills;
  byId("take-back").addEventListener("click", takeBack);
  byId("stop").addEventListener("click", () => running?.abort());
  byId("earlier").addEventListener("click", () => step(-1));
  byId("later").addEventListener("click", () => step(1));
  byId("save-text").addEventListener("click", () => offer("text.txt", "text/plain", editor.value));
  byId("save-turns").addEventListener("click", () => offer("text.json", "application/json",
    JSON.stringify({ model: data.id, text: editor.value, made, turns }, null, 2)));
  draw();
}
