/* Draws lines in a figure, with axes, a cursor that shows the values, and places that can be
 * picked. */
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/* The least round number that is not below `value`, which is positive. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((factor) => factor * power >= value) ?? 10);
}

/* About `about` round numbers from `low` to `high`. */
function roundTicks(low, high, about) {
  const step = roundUp((high - low) / about || 1);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

/* Maps the values of an axis to places from `start` to `end`. */
function axis(low, high, start, end, scale = (value) => value) {
  const span = scale(high) - scale(low) || 1;
  return (value) => start + (end - start) * (scale(value) - scale(low)) / span;
}

/* Draws in `figure`:
 *   name     what the figure shows
 *   series   { points: [x, y][], dots, level } each; level is a constant to draw too
 *   x        { low, high, ticks, label, scale }
 *   y        { label }
 *   at       the value of x for a part, 0 to 1, of its axis
 *   next     the value of x after one (null: none yet) to the left, -1, or to the right, 1
 *   textAt   the caption for a value of x; for null, the caption while no value is pointed at
 *   pick     what a click or Enter does with a value of x; may be left out
 * Returns a function that marks a value of x, or with null none. */
function plot(figure, { name, series, x, y, at, next, textAt, pick }) {
  const width = figure.clientWidth;
  const height = Math.max(170, Math.min(220, width / 2));
  const [left, right, top, bottom] = [40, width - 10, 24, height - 38];

  const values = series.flatMap(({ points, level }) => [...points.map(([, value]) => value), level])
    .filter(Number.isFinite);
  const ticks = roundTicks(Math.min(...values), Math.max(...values), 5);
  const across = axis(x.low, x.high, left, right, x.scale);
  const down = axis(Math.min(...values, ...ticks), Math.max(...values, ...ticks), bottom, top);

  const svg = drawn("svg", {
    viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": name });
  const line = (kind, x1, x2, y1, y2) => drawn("line", { class: kind, x1, x2, y1, y2 });
  const note = (text, place, level, anchor) =>
    drawn("text", { x: place, y: level, "text-anchor": anchor }, text);

  for (const tick of ticks) {
    svg.append(line("grid", left, right, down(tick), down(tick)),
      note(count(tick), left - 8, down(tick) + 4, "end"));
  }
  for (const tick of x.ticks) {
    svg.append(note(count(tick), across(tick), bottom + 18,
      across(tick) > right - 20 ? "end" : "middle"));
  }
  svg.append(note(y.label, 0, 11, "start"), note(x.label, right, height - 4, "end"));

  series.forEach(({ points, dots, level }, i) => {
    const kind = ["first", "second", "third"][i];
    const places = points.filter(([, value]) => Number.isFinite(value))
      .map(([value, other]) => [across(value), down(other)]);
    if (level !== undefined) {
      svg.append(line(`mean ${kind}`, left, right, down(level), down(level)));
    }
    svg.append(drawn("path", {
      class: `line ${kind}`, d: `M${places.map((place) => place.join(" ")).join("L")}` }));
    if (dots) {
      svg.append(...places.map(([cx, cy]) => drawn("circle", { class: kind, cx, cy, r: 3.5 })));
    }
  });

  const marker = (kind) => {
    const made = line(kind, 0, 0, top, bottom);
    svg.append(made);
    const move = (value) => {
      made.setAttribute("visibility", value === null ? "hidden" : "visible");
      made.setAttribute("transform", `translate(${value === null ? 0 : across(value)} 0)`);
    };
    move(null);
    return move;
  };
  const mark = marker("chosen");
  const cursor = marker("cursor");
  const caption = document.createElement("figcaption");
  let pointed = null;
  const point = (value) => {
    pointed = value;
    cursor(value);
    caption.replaceChildren(textAt(value));
    svg.setAttribute("aria-label", value === null ? name : `${name}: ${caption.textContent}`);
  };
  point(null);

  const under = (event) => {
    const part = (event.clientX - svg.getBoundingClientRect().left - left) / (right - left);
    return at(Math.max(0, Math.min(1, part)));
  };
  svg.addEventListener("pointermove", (event) => point(under(event)));
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      point(next(pointed, event.key === "ArrowLeft" ? -1 : 1));
    } else if (event.key === "Enter" && pointed !== null) {
      pick?.(pointed);
    }
  });
  if (pick) {
    svg.classList.add("picks");
    svg.addEventListener("click", (event) => pick(under(event)));
  }
  figure.replaceChildren(svg, caption);
  return mark;
}
