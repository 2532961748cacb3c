// The page as a whole: what is shown, what is turned, and what follows from it.

import { Rational } from "./rational.js";
import { shown, stated } from "./format.js";
import { find, html } from "./dom.js";
import { Model } from "./model.js";
import { scheduleText } from "./documents.js";
import { hatchDefinitions } from "./looks.js";
import { disagreements, drawSummary, updateSummary } from "./summary.js";
import { drawFront, markPoint } from "./front.js";
import { LinkList } from "./links.js";
import { Stage } from "./stage.js";
import { JobTable } from "./jobs.js";

const QUIET = 500; // ms without a turn until the outcome is told to who cannot see it

const data = JSON.parse(find("data").textContent);
const state = { data };
const wanted = new Map(); // job to offset, until the next frame
let telling = null;

const links = new LinkList(chooseLink);
const stage = new Stage(turn, turnBy);
const jobs = new JobTable(turn, visit);

function choosePoint(number) {
  const point = data.points[number];
  const { instance } = data;
  const unshifted = instance.jobs.map((job) => job.unshifted);
  const still = instance.jobs.map(() => 0);
  wanted.clear();
  state.point = point;
  state.model = new Model(instance, point.offsets, point.stretch, point.longer);
  state.before = point.before ? new Model(instance, unshifted, still, point.longer) : null;
  const wrong = disagreements(state.model, point);
  find("disagreement").hidden = !wrong.length;
  find("disagreement").textContent =
    `This page and the judge differ in ${wrong.join(", ")}: trust neither.`;
  drawSummary(state);
  updateSummary(state);
  links.show(state);
  jobs.show(state);
  find("points").value = number;
  markPoint(number);
  chooseLink(links.order.includes(state.link) ? state.link : links.order[0]);
}

function chooseLink(link) {
  state.link = link;
  links.mark(link);
  find("stage").hidden = link === undefined;
  if (link !== undefined) stage.show(state);
}

function visit(job) {
  chooseLink(state.model.jobs[job].links[0][0]);
  find("stage").scrollIntoView();
  find("link-name").focus({ preventScroll: true });
}

// Turns a job at the next frame: a pointer may move more often than anybody can see.
function turn(job, offset) {
  if (!wanted.size) requestAnimationFrame(carryOut);
  wanted.set(job, offset);
}

// Turns a job on from where it is to be: keys may be pressed more often than frames are drawn.
function turnBy(job, slots) {
  turn(job, (wanted.get(job) ?? state.model.jobs[job].offset) + slots);
}

function carryOut() {
  const turned = [...wanted].filter(([job, offset]) => state.model.turn(job, offset));
  wanted.clear();
  follow(turned.map(([job]) => job));
}

// Draws again what depends on some jobs: their links, and who shares those with them.
function follow(turned) {
  const { jobs: all, users } = state.model;
  const touched = new Set(turned.flatMap((job) => all[job].links.map(([link]) => link)));
  const met = [...touched].flatMap((link) => users[link].map(({ job }) => job.index));
  updateSummary(state);
  links.update(touched);
  jobs.update(new Set([...turned, ...met]));
  if (state.link !== undefined) stage.update();
  clearTimeout(telling);
  telling = setTimeout(() => tell(turned), QUIET);
}

function tell(turned) {
  const { contention, latency } = state.model.values();
  const [first] = turned.map((job) => state.model.jobs[job]);
  const moved = turned.length === 1 ? `${first.name} at slot ${first.offset}. ` : "";
  say(`${moved}Contention ${shown(contention)}, latency ${stated("latency", latency)}.`);
}

function say(text) {
  find("live").textContent = text;
}

function reset(jobsToReset) {
  const turned = jobsToReset.filter((job) => state.model.turn(job, state.point.offsets[job]));
  follow(turned);
  links.show(state);
}

// ------------------------------------------------------------------ taking away

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied.`);
    note(`${what} copied`);
  } catch {
    // Some browsers keep files on disk from the clipboard.
    const area = html("textarea", { readonly: true, class: "copying", "aria-label": what });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    note(done ? `${what} copied` : `${what} could not be copied: download it`);
  }
}

function note(text) {
  find("done").textContent = text;
  setTimeout(() => find("done").textContent === text && (find("done").textContent = ""), 4000);
}

function download(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  html("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const schedule = () => scheduleText(data.instance, state.model, state.point);

const actions = {
  reset: () => reset(state.model.jobs.map(({ index }) => index)),
  "reset-link": () => reset(state.model.users[state.link].map(({ job }) => job.index)),
  "copy-schedule": () => copy(schedule(), "Schedule"),
  "save-schedule": () => download(schedule(), "schedule.json", "application/json"),
  theme: toggleTheme,
};

// ------------------------------------------------------------------ light and dark

function isDark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
}

function nameTheme() {
  find("theme").textContent = isDark() ? "Light mode" : "Dark mode";
}

// ------------------------------------------------------------------ beginning

function describe(point) {
  const values = point.stated.slice(0, 2).map((name) => {
    const text = point.truth[name];
    return `${name} ${stated(name, text === null ? null : Rational.parse(text))}`;
  });
  return [point.label.replace(/\.json$/, ""), ...values].join(", ");
}

document.body.append(hatchDefinitions());
for (const [id, act] of Object.entries(actions)) find(id).addEventListener("click", act);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
nameTheme();
find("points").replaceChildren(
  ...data.points.map((point, number) => html("option", { value: number }, describe(point))),
);
find("choice").hidden = data.points.length < 2;
find("points").addEventListener("change", () => choosePoint(Number(find("points").value)));
drawFront(data, choosePoint);
choosePoint(0);
document.body.classList.add("ready");
