// All jobs: what each waits, and how long its iterations were when the jobs ran.

import { drawnOf, milliseconds, tenths } from "./format.js";
import { button, exactly, find, html, named, svg } from "./dom.js";

const PAGE = 12; // jobs that are drawn at once

export class JobTable {
  // turn(job, offset) turns a job; visit(job) shows a link of it.
  constructor(turn, visit) {
    this.turn = turn;
    this.visit = visit;
    this.count = PAGE;
    find("job-search").addEventListener("input", () => {
      this.count = PAGE;
      this.#fill();
    });
    find("more-jobs").addEventListener("click", () => {
      this.count += PAGE;
      this.#fill();
    });
  }

  show(state) {
    this.state = state;
    this.count = PAGE;
    this.#fill();
  }

  update(jobs) {
    for (const job of jobs) this.rows.get(job)?.update();
  }

  #fill() {
    const { model } = this.state;
    const wanted = find("job-search").value.trim().toLowerCase();
    const found = model.jobs.filter(({ name }) => name.toLowerCase().includes(wanted));
    this.rows = new Map(found.slice(0, this.count).map((job) => [job.index, this.#row(job)]));
    find("job-rows").replaceChildren(...[...this.rows.values()].map(({ row }) => row));
    find("more-jobs").hidden = found.length <= this.count;
    find("job-count").textContent = drawnOf(this.rows.size, found.length, "job");
  }

  // Iteration times before and now, one bar above the other, as shares of the longer one.
  #bars(job) {
    const { data, point } = this.state;
    const longest = Math.max(data.before_ms[job], point.times_ms[job], 1);
    const bar = (name, ms, y) =>
      svg("rect", { class: name, x: 0, y, width: (100 * (ms ?? 0)) / longest, height: 5 });
    return svg(
      "svg",
      { viewBox: "0 0 100 12", preserveAspectRatio: "none" },
      bar("before", data.before_ms[job], 0),
      bar("now", point.times_ms[job], 6),
    );
  }

  #row(job) {
    const { data, model, point } = this.state;
    const slotMs = data.instance.slot_ms;
    const cell = (label, ...children) => html("td", { "data-label": label }, ...children);
    const wait = cell("waits");
    const offset = html("input", {
      type: "number",
      min: 0,
      max: job.length - 1,
      disabled: job.fixed,
      "aria-label": `Offset of ${job.name} in slots`,
      "data-offset": job.index,
    });
    offset.addEventListener("change", () => {
      if (offset.validity.valid && offset.value !== "") this.turn(job.index, Number(offset.value));
      else offset.value = job.offset;
    });
    const name = job.links.length
      ? button("", () => this.visit(job.index), { class: "plain" })
      : html("span");
    name.append(named(job.name));
    const row = html(
      "tr",
      { "data-row": job.index },
      html("th", { scope: "row" }, name),
      cell("priority", `${job.weight}`),
      html("td", { class: "where", "data-label": "nodes" }, data.instance.jobs[job.index].where),
      cell("alone", tenths(data.instance.jobs[job.index].alone_ms)),
      cell("before", tenths(data.before_ms[job.index])),
      cell("now", tenths(point.times_ms[job.index])),
      html("td", { class: "bars", "aria-hidden": "true" }, this.#bars(job.index)),
      cell("offset, slots", offset),
      wait,
      cell("period", milliseconds(job.period, slotMs)),
      cell("stretch", job.stretch ? milliseconds(job.stretch, slotMs) : "–"),
    );
    const update = () => {
      offset.value = job.offset;
      const slots = model.wait(job.index);
      wait.replaceChildren(exactly(slots, milliseconds(slots, slotMs), { "data-wait": job.index }));
    };
    update();
    return { row, update };
  }
}
