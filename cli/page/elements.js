/* The beginning of all pages' scripts: the data, functions that make elements, and text that is
 * safe to show. */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

const count = new Intl.NumberFormat("en").format;

function byId(id) {
  return document.getElementById(id);
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/* A result in large letters: whose it is, the value and its unit, and what else there is to say. */
function headline(name, value, label, more, kind = "") {
  return element("div", { class: `headline${kind}` },
    element("p", { class: "model" }, name),
    element("p", { class: "value" }, `${value} `, element("small", {}, label)),
    element("p", { class: "more" }, more.join(" · ")));
}

/* null stands for a number without meaning. */
function fixed(value, digits) {
  return value === null ? "-" : value.toFixed(digits);
}

/* Characters that are invisible, or change how others are shown. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}]/gu;

function visible(text) {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) {
      return String.fromCodePoint(0x2400 + code);
    }
    return code === 0x7f ? "\u2421" : `\\u{${code.toString(16).toUpperCase()}}`;
  });
}

function baseName(path) {
  return visible(path.split("/").at(-1));
}

/* A figure as in --json, without the quotes of a string. */
function plain(figure) {
  return typeof figure === "string" ? visible(figure) : JSON.stringify(figure) ?? "";
}

/* A name that may be broken behind each _. */
function breakable(name) {
  return name.split("_").flatMap((part, i) =>
    (i > 0 ? ["_", element("wbr"), part] : [part]));
}

function addTheme() {
  const schemes = { auto: "light dark", light: "light", dark: "dark" };
  const themes = Object.keys(schemes);
  const button = byId("theme");
  const apply = (theme) => {
    document.documentElement.style.colorScheme = schemes[theme];
    button.textContent = `Theme: ${theme}`;
    button.onclick = () => apply(themes[(themes.indexOf(theme) + 1) % themes.length]);
  };
  apply(themes[0]);
}
