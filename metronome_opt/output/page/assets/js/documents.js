// What can be taken away: a schedule file, of the offsets as they are now.

import { Rational } from "./rational.js";

// Names may be anything, "__proto__" too, so that mappings are written from pairs.
function mapping(pairs) {
  const fields = pairs.map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  return `{${fields.join(", ")}}`;
}

export function isTurned(model, point) {
  return model.jobs.some((job) => job.offset !== point.offsets[job.index]);
}

// A schedule that nobody turned is the file itself. Of a turned one nothing is proved: its status
// is feasible, and no seed repeats it. The solver's bound holds whatever the offsets are, so it
// stays, unless the new value shows that it was false. What was simulated, and that jobs can keep
// slots, is of the former offsets.
export function scheduleText(instance, model, point) {
  if (!isTurned(model, point)) return point.document;
  const values = model.values();
  const stated = point.stated.filter((name) => name in values);
  const names = stated.length ? stated : ["contention", "latency"];
  const unbound = !(point.first in values) || isRefuted(values, point);
  const exact = (value) => (value === null ? null : `${value}`);
  const lines = {
    format: JSON.stringify("metronome-schedule/1"),
    instance: JSON.stringify(instance.name),
    offsets: mapping(model.jobs.map(({ name, offset }) => [name, offset])),
    stretch: mapping(model.jobs.map(({ name, stretch }) => [name, stretch])),
    status: JSON.stringify("feasible"),
    objectives: mapping(names.map((name) => [name, exact(values[name])])),
    lower_bound: JSON.stringify(unbound ? null : point.lower_bound),
    solver: JSON.stringify(`${point.solver}, turned by hand`),
    seed: "null",
    runtime_s: JSON.stringify(point.runtime_s),
    versions: mapping(point.versions),
  };
  if (point.longer) lines.cushion_slots = JSON.stringify(point.longer);
  if (point.stretch_limit !== null) lines.stretch_limit = JSON.stringify(point.stretch_limit);
  const body = Object.entries(lines).map(([key, value]) => `  "${key}": ${value}`);
  return `{\n${body.join(",\n")}\n}\n`;
}

// Whether these offsets are better than the bound says any can be.
export function isRefuted(values, point) {
  if (point.lower_bound === null || (values[point.first] ?? null) === null) return false;
  const over = Rational.parse(point.lower_bound).compare(values[point.first]);
  return point.first === "cushion" ? over < 0 : over > 0;
}
