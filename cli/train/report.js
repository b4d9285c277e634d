/* The report of a training: data.points are [steps so far, mean nats a token, learning rate] of
 * equal numbers of steps, data.evaluations { step, nats, bits, text } of the held-out text. */
"use strict";

const { points, evaluations, settings } = data;
const measured = evaluations.filter(({ nats }) => nats !== null);
const best = measured.reduce((one, other) => (one && one.nats <= other.nats ? one : other), null);
const unit = data.letters ? "character" : "token";
const steps = points.length > 0 ? points.at(-1)[0] : 0;

function drawHeadlines() {
  const made = [];
  if (best) {
    made.push(headline("Held-out text, at best", fixed(best.bits, 4),
      settings.ids ? "bits per token" : "bits per character",
      [`after ${count(best.step)} steps`,
        ...(measured[0].step === 0 ? [`${fixed(measured[0].bits, 4)} before training`] : []),
        `perplexity ${fixed(Math.exp(best.nats), 3)} a ${unit}`]));
  }
  if (points.length > 0) {
    made.push(headline("Training, of late", fixed(points.at(-1)[1] / Math.LN2, 3),
      `bits per ${unit}`, [`after ${count(steps)} steps`]));
  }
  byId("headlines").append(...made);
}

function drawFigures() {
  byId("figures").append(...Object.entries(settings).map(([key, value]) => element("tr", {},
    element("th", { scope: "row" }, ...breakable(key)),
    element("td", {}, plain(value)))));
}

/* The values of a list of [x, ...] whose x is nearest to this one. */
function nearest(list, x) {
  return list.reduce((one, other) =>
    (Math.abs(other[0] - x) < Math.abs(one[0] - x) ? other : one));
}

function colouredKey(kind, text) {
  return element("span", { class: `key ${kind}` }, element("i"), text);
}

/* A plot over the steps. */
function drawSteps(box, series, name, label, textAt) {
  plot(box.querySelector("figure"), {
    name,
    series,
    x: { low: 0, high: steps, ticks: roundTicks(0, steps, 4), label: "steps" },
    y: { label },
    at: (part) => nearest(points, part * steps)[0],
    next: (step, direction) => {
      const at = step === null ? 0 : points.findIndex(([x]) => x === step) + direction;
      return points[Math.max(0, Math.min(points.length - 1, at))][0];
    },
    textAt,
  });
}

function drawLoss() {
  const heldOut = measured.map(({ step, nats }) => [step, nats / Math.LN2]);
  const series = [{ points: points.map(([step, nats]) => [step, nats / Math.LN2]) }];
  if (heldOut.length > 0) {
    series.push({ points: heldOut, dots: heldOut.length < 30 });
  }
  drawSteps(byId("course"), series, "Loss of training and of the held-out text",
    `bits per ${unit}`, (step) => {
      const line = document.createDocumentFragment();
      line.append(colouredKey("first", "training"));
      if (heldOut.length > 0) {
        line.append(colouredKey("second", "held out"));
      }
      if (step !== null) {
        const [, nats] = nearest(points, step);
        line.append(`\nstep ${count(step)}: ${fixed(nats / Math.LN2, 3)}`);
        if (heldOut.length > 0) {
          const [after, bits] = nearest(heldOut, step);
          line.append(`, held out ${fixed(bits, 3)} after ${count(after)}`);
        }
      }
      return line;
    });
}

function drawRate() {
  drawSteps(byId("rate"), [{ points: points.map(([step, , rate]) => [step, rate * 1000]) }],
    "Learning rate", "thousandths", (step) =>
      (step === null ? "" : `step ${count(step)}: ${nearest(points, step)[2].toPrecision(4)}`));
}

function drawPlots() {
  if (points.length > 0) {
    drawLoss();
    drawRate();
  }
}

/* Line ends stay line ends. */
function lines(text) {
  return text.split("\n").map(visible).join("\n");
}

function drawWritten() {
  const written = evaluations.filter(({ text }) => text !== null);
  byId("prompt").textContent = written.length === 0 ? "Nothing was written in this run."
    : data.prompt === null ? "Written in the runs before this one." : `After: ${lines(data.prompt)}`;
  byId("written").append(...written.toReversed().map(({ step, bits, text }) =>
    element("article", { class: best && step === best.step ? "best" : "" },
      element("h3", {}, `After ${count(step)} steps${bits === null ? "" : ` · ${fixed(bits, 4)} bits`}`
        + `${best && step === best.step ? " · the model that was kept" : ""}`),
      element("p", {}, lines(text)))));
}

document.title = `${baseName(data.output)} - txl train`;
byId("file").textContent = baseName(data.output);
drawHeadlines();
drawFigures();
addTheme();
drawPlots();
drawWritten();
addEventListener("resize", drawPlots);
