// One link closely: its circle, to be turned, its timeline, and a slider for each of its jobs.

import { counted, gigabits, milliseconds, shown, stated } from "./format.js";
import { button, exactly, find, html, named } from "./dom.js";
import { drawCircle, slotsBetween } from "./circle.js";
import { drawTimeline, highestDemand } from "./timeline.js";
import { swatch } from "./looks.js";

const LEAP = 10; // slots, with Shift held or by page keys
const PAGE = 60; // jobs with a slider

export class Stage {
  // turn(job, offset) turns a job, turnBy(job, slots) turns it on; both at the next frame.
  constructor(turn, turnBy) {
    this.turn = turn;
    this.turnBy = turnBy;
    new ResizeObserver(() => this.#redrawTimelines()).observe(find("timelines"));
  }

  show(state) {
    this.state = state;
    this.shown = PAGE;
    this.#draw();
  }

  // Follows what has been turned.
  update() {
    const { model, link } = this.state;
    const placed = model.placed(link);
    this.highest = Math.max(this.highest, this.#highest(placed, model.report(link).hyperperiod));
    this.circle.update(placed, this.highest);
    this.timeline.update(placed, this.highest);
    if (this.before) {
      this.before.circle.update(this.before.placed, this.highest);
      this.before.timeline.update(this.before.placed, this.highest);
    }
    this.sliders.forEach((slider) => slider.update());
    this.#tell();
  }

  #draw() {
    const { data, model, before, link } = this.state;
    const found = data.instance.links[link];
    const placed = model.placed(link);
    const { hyperperiod } = model.report(link);
    const slotMs = data.instance.slot_ms;
    this.highest = this.#highest(placed, hyperperiod);
    find("link-name").replaceChildren(named(found.name));
    find("link-facts").textContent =
      `${gigabits(found.capacity)}, ${counted(placed.length, "job")}, ` +
      `repeats after ${milliseconds(hyperperiod, slotMs)} (${counted(hyperperiod, "slot")}).`;
    this.circle = drawCircle(placed, found, hyperperiod, slotMs, (...grip) => this.#grab(...grip));
    find("circle-now").replaceChildren(this.circle.face);
    this.before = null;
    if (before) {
      const unshifted = before.placed(link);
      const turn = before.report(link).hyperperiod;
      this.highest = Math.max(this.highest, this.#highest(unshifted, turn));
      this.before = { placed: unshifted, circle: drawCircle(unshifted, found, turn, slotMs) };
      find("circle-before").replaceChildren(this.before.circle.face);
    }
    for (const part of document.querySelectorAll(".before")) part.hidden = !before;
    find("cut").hidden = this.circle.slots === hyperperiod;
    find("cut").textContent = `The first ${milliseconds(this.circle.slots, slotMs)} are drawn.`;
    this.#drawSliders();
    this.#drawTimelines();
    this.update();
  }

  #drawSliders() {
    const users = this.state.model.users[this.state.link];
    this.sliders = users
      .slice(0, this.shown)
      .map(({ job, flows }, position) => this.#slider(job, flows, position));
    find("sliders").replaceChildren(...this.sliders.map(({ row }) => row));
    if (users.length > this.shown) {
      const more = button(`Show ${PAGE} more of ${users.length}`, () => {
        this.shown += PAGE;
        this.#drawSliders();
        this.sliders.forEach((slider) => slider.update());
      });
      find("sliders").append(html("li", {}, more));
    }
  }

  #drawTimelines() {
    const { data, model, before, link } = this.state;
    const found = data.instance.links[link];
    this.width = timelineWidth();
    const draw = (users, turn) =>
      drawTimeline(users, found, turn, data.instance.slot_ms, this.width);
    this.timeline = draw(model.placed(link), model.report(link).hyperperiod);
    find("timeline-now").replaceChildren(this.timeline.face);
    if (!before) return;
    this.before.timeline = draw(this.before.placed, before.report(link).hyperperiod);
    find("timeline-before").replaceChildren(this.before.timeline.face);
  }

  #redrawTimelines() {
    if (this.width === undefined || this.width === timelineWidth()) return;
    this.#drawTimelines();
    this.update();
  }

  #highest(users, hyperperiod) {
    return highestDemand(users, this.state.data.instance.links[this.state.link], hyperperiod);
  }

  #tell() {
    const { model, before, link } = this.state;
    const { contention, late, score, cushion } = model.report(link);
    const spare = cushion === null ? stated("cushion", null) : counted(cushion, "slot");
    const room = late.isZero ? spare : "–"; // what is contended has no room to spare
    const told = [
      ["contention", contention, shown(contention)],
      ["late", late, `${shown(late)} Mbit/s`],
      ["score", score, shown(score)],
      ["cushion", cushion, room],
    ];
    find("link-values").replaceChildren(
      ...told.flatMap(([name, value, text]) => [
        html("dt", {}, name),
        html("dd", {}, exactly(value, text, { "data-link-value": name })),
      ]),
    );
    title(".title-now", model.report(link));
    if (before) title(".title-before", before.report(link));
  }

  // A pointer has taken a ring: the job follows it until it is let go.
  #grab(event, position, circle) {
    const { job } = this.state.model.users[this.state.link][position];
    const ring = event.currentTarget;
    let [last, slots] = [event, job.offset];
    event.preventDefault();
    ring.setPointerCapture(event.pointerId);
    ring.classList.add("held");
    const follow = (moved) => {
      slots += slotsBetween(circle, last, moved);
      last = moved;
      this.turn(job.index, Math.round(slots));
    };
    const release = () => {
      ring.classList.remove("held");
      ring.removeEventListener("pointermove", follow);
    };
    ring.addEventListener("pointermove", follow);
    ring.addEventListener("lostpointercapture", release, { once: true });
    this.sliders[position]?.focus();
  }

  #slider(job, flows, position) {
    const { data, point } = this.state;
    const input = html("input", {
      type: "range",
      min: 0,
      max: job.length - 1,
      step: 1,
      disabled: job.fixed,
      "aria-label": `Offset of ${job.name} in slots`,
      "data-job": job.index,
    });
    const told = html("output", { class: "offset" });
    const stepper = (sign, by, way) =>
      button(sign, () => this.turnBy(job.index, by), {
        "aria-label": `${job.name}: one slot ${way}`,
        disabled: job.fixed,
      });
    const [less, more] = [stepper("−", -1, "earlier"), stepper("+", 1, "later")];
    input.addEventListener("input", () => this.turn(job.index, Number(input.value)));
    input.addEventListener("keydown", (event) => {
      const leap = event.shiftKey ? LEAP : 1;
      const steps = { ArrowRight: leap, ArrowUp: leap, ArrowLeft: -leap, ArrowDown: -leap };
      const leaps = { PageUp: LEAP, PageDown: -LEAP };
      const targets = { Home: point.offsets[job.index], End: job.unshifted };
      const by = steps[event.key] ?? leaps[event.key];
      if (by === undefined && !(event.key in targets)) return;
      event.preventDefault();
      if (by === undefined) this.turn(job.index, targets[event.key]);
      else this.turnBy(job.index, by);
    });
    const ring = this.circle.rings[position]?.group;
    const mark = (active) => ring?.classList.toggle("active", active);
    const row = html(
      "li",
      { class: "slider" },
      html("span", { class: "which" }, swatch(position), `${position + 1}`),
      named(job.name),
      html("small", {}, about(job, flows)),
      html("span", { class: "turning" }, less, input, more),
      told,
    );
    for (const event of ["mouseenter", "focusin"]) row.addEventListener(event, () => mark(true));
    for (const event of ["mouseleave", "focusout"]) row.addEventListener(event, () => mark(false));
    const update = () => {
      const time = milliseconds(job.offset, data.instance.slot_ms);
      const text = `${job.offset} of ${job.length} slots, ${time}`;
      input.value = job.offset;
      input.setAttribute("aria-valuetext", text);
      told.textContent = text;
      row.classList.toggle("moved", job.offset !== point.offsets[job.index]);
    };
    return { row, update, focus: () => input.focus({ preventScroll: true, focusVisible: false }) };
  }
}

function timelineWidth() {
  return Math.max(260, Math.floor(find("timelines").clientWidth));
}

function title(selector, { contention }) {
  for (const place of document.querySelectorAll(selector)) {
    place.textContent = `contention ${shown(contention)}`;
  }
}

function about({ weight, fixed, stretch }, flows) {
  return [
    `weight ${weight}`,
    flows > 1 ? `${flows} flows` : "",
    stretch ? `stretched by ${counted(stretch, "slot")}` : "",
    fixed ? "fixed" : "",
  ]
    .filter(Boolean)
    .join(", ");
}
