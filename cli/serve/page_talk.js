/* Talks with the server that the page is from. */
"use strict";

const meta = data.meta;
const inWords = ["words", "lm1b", "pieces"].includes(meta.tokenizer);

/* The colours' scale, as in the reports. */
const STEPS = 12;
const NATS_A_STEP = inWords ? 1 : 0.5;
const DIFFERENCES = 11;
const MIDDLE = (DIFFERENCES - 1) / 2;

function surpriseClass(nats) {
  return Number.isFinite(nats) ? `s${Math.min(STEPS - 1, Math.floor(nats / NATS_A_STEP))}` : "context";
}

function percent(probability) {
  const value = 100 * probability;
  return value < 0.001 ? "< 0.001 %" : `${value.toPrecision(value < 10 ? 2 : 3)} %`;
}

function bits(nats) {
  return nats / Math.LN2;
}

function complain(error) {
  if (error?.name !== "AbortError") {
    byId("problem").textContent = error ? visible(error.message) : "";
  }
}

/* Speaks on request alone. */
function speak(text) {
  byId("spoken").textContent = visible(text);
}

async function post(path, body, signal) {
  const key = byId("key").value;
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify(body),
    signal,
  });
  if (!answer.ok) {
    byId("key-line").hidden &&= answer.status !== 401;
    throw new Error((await answer.json()).error.message);
  }
  return answer;
}

async function ask(path, body, signal) {
  return (await post(path, body, signal)).json();
}

/* The events of a stream. */
async function* events(path, body, signal) {
  const reader = (await post(path, { ...body, stream: true }, signal)).body.getReader();
  const decoder = new TextDecoder();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    held += decoder.decode(value, { stream: true });
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ") && part !== "data: [DONE]") {
        const event = JSON.parse(part.slice(6));
        if (event.error) {
          throw new Error(event.error.message);
        }
        yield event;
      }
    }
  }
}

/* Offers a file of the text. */
function offer(name, type, text) {
  const link = element("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  URL.revokeObjectURL(link.href);
}

/* Takes a file that is dropped on a field, as its text. */
function takeFiles(field, taken) {
  field.addEventListener("dragover", (event) => event.preventDefault());
  field.addEventListener("drop", async (event) => {
    const file = event.dataTransfer?.files[0];
    if (file) {
      event.preventDefault();
      field.value = await file.text();
      taken();
    }
  });
}

/* An argument as a shell takes it. */
function quoted(text) {
  return /^[\w.,:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function modelOption() {
  return data.id === "built-in" ? "" : ` -m ${quoted(data.id)}`;
}

function addTabs() {
  const names = ["write", "read"];
  const choose = (name, focus) => {
    for (const other of names) {
      const chosen = other === name;
      byId(other).hidden = !chosen;
      byId(`tab-${other}`).setAttribute("aria-selected", chosen);
      byId(`tab-${other}`).tabIndex = chosen ? 0 : -1;
    }
    history.replaceState(null, "", `#${name}`);
    if (focus) {
      byId(`tab-${name}`).focus();
    }
  };
  names.forEach((name, i) => {
    byId(`tab-${name}`).addEventListener("click", () => choose(name, false));
    byId(`tab-${name}`).addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        choose(names[1 - i], true);
      }
    });
  });
  const wanted = location.hash.slice(1);
  choose(names.includes(wanted) ? wanted : names[0], false);
}

function start() {
  byId("file").textContent = visible(data.id);
  byId("where").textContent = `local: ${location.host}`;
  byId("about").textContent = `${meta.family}, ${meta.tokenizer}, ${count(meta.parameters)} parameters, `
    + `memory of ${count(meta.mem_len)} tokens`;
  byId("key-line").addEventListener("submit", (event) => event.preventDefault());
  addTheme();
  addTabs();
  byId("learning").hidden = meta.family !== "transformer-xl";
  startWriting();
  startReading();
}
