// What the schedule comes to: the values now, and beside what was before and what the solver found.

import { Rational } from "./rational.js";
import { change, counted, percent, stated } from "./format.js";
import { exactly, find, html } from "./dom.js";
import { isRefuted, isTurned } from "./documents.js";

const SCORES = { score_mean: "score, mean", score_min: "score, minimum" };
const FIGURES = {
  contention: "Contention",
  latency: "Late traffic",
  score_mean: "Score, mean",
  score_min: "Score, minimum",
};

const parse = (text) => (text === null ? null : Rational.parse(text));

export function drawSummary({ data, point, model }) {
  const { name, links, jobs } = data.instance;
  find("title").textContent = name;
  const used = model.users.filter((users) => users.length).length;
  find("lead").textContent =
    `${counted(jobs.length, "job")} on ${counted(used, "link")}` +
    (used < links.length ? ` of ${links.length.toLocaleString("en")}` : "") +
    `, in slots of ${data.instance.slot_ms} ms` +
    (point.longer ? `; all values are of bursts longer by ${counted(point.longer, "slot")}` : "");
  find("gain").textContent = point.slowdown
    ? `Mean slowdown ${point.slowdown}, before ${data.slowdown}.`
    : "";
  find("facts").replaceChildren(...facts(point, data.generator).flatMap(fact));
  const rows = Object.entries({ ...data.units, ...scoreUnits() });
  find("values").replaceChildren(...rows.map(([value, unit]) => valueRow(value, unit, point)));
  find("figures").replaceChildren(...Object.entries(FIGURES).map(figure));
}

// The values that follow the hand.
export function updateSummary({ point, model }) {
  const values = model.values();
  const turned = isTurned(model, point);
  document.body.classList.toggle("turned", turned);
  for (const [name, value] of Object.entries(values)) {
    const cell = document.querySelector(`#values [data-now="${name}"]`);
    cell.replaceChildren(exact(name, value));
    const box = document.querySelector(`#figures [data-figure="${name}"]`);
    if (box) updateFigure(box, name, value, point, turned);
  }
  const count = model.jobs.filter((job) => job.offset !== point.offsets[job.index]).length;
  find("turned").textContent = turned
    ? `${counted(count, "job")} turned by hand`
    : "as the solver left it";
  for (const id of ["reset", "reset-link"]) find(id).disabled = !turned;
  find("refuted").hidden = !isRefuted(values, point);
}

// Names of values in which this page and the judge differ: none, unless one of them is wrong.
export function disagreements(model, point) {
  const values = model.values();
  return Object.keys(values).filter((name) => {
    const [here, there] = [values[name], point.truth[name]];
    return (here === null ? null : `${here}`) !== there;
  });
}

function figure([name, title]) {
  return html(
    "div",
    { class: "figure", "data-figure": name },
    html("dt", {}, title),
    html("dd", { class: "value" }),
    html("dd", { class: "beside" }),
    html("dd", { class: "beside" }),
  );
}

function updateFigure(box, name, value, point, turned) {
  const [big, first, second] = box.querySelectorAll("dd");
  big.replaceChildren(exactly(value, stated(name, value), { "data-value": name }));
  const solved = parse(point.truth[name]);
  const before = point.before ? parse(point.before[name]) : null;
  first.textContent = `unshifted ${before === null ? "not known" : stated(name, before)}`;
  const differs = turned && solved !== null && !(name in SCORES);
  const by = differs ? ` (${change(value, solved)})` : "";
  second.textContent = `solved ${stated(name, solved)}${by}`;
}

function valueRow(name, unit, point) {
  const before = point.before ? parse(point.before[name]) : undefined;
  return html(
    "tr",
    {},
    html("th", { scope: "row" }, SCORES[name] ?? name, unit ? html("small", {}, unit) : null),
    html("td", {}, before === undefined ? "–" : exact(name, before)),
    html("td", {}, exact(name, parse(point.truth[name]))),
    html("td", { "data-now": name, class: "now" }),
  );
}

// A number to read; the exact one, which may be long, is told to a pointer that rests on it.
function exact(name, value) {
  const text = stated(name, value);
  const full = value === null ? text : `${value}`;
  return exactly(value, text, { title: full === text.replaceAll(",", "") ? null : full });
}

function scoreUnits() {
  return Object.fromEntries(Object.keys(SCORES).map((name) => [name, "shared links"]));
}

function facts(point, generator) {
  const { first, gap, seed, versions } = point;
  return [
    ["status", point.status],
    ["optimised first", first],
    ["lower bound", describeBound(point)],
    ["gap", gap === null ? "not known" : percent(parse(gap))],
    ["solver", point.solver],
    ["seed", seed === null ? "none" : seed],
    ["time", `${point.runtime_s.toLocaleString("en", { maximumFractionDigits: 2 })} s`],
    ["made with", versions.map(([name, number]) => `${name} ${number}`).join(", ") || "not stated"],
    ["page by", generator],
  ];
}

function describeBound({ first, lower_bound: proved }) {
  return proved === null ? "none" : stated(first, parse(proved));
}

function fact([name, value]) {
  return [html("dt", {}, name), html("dd", {}, value)];
}
