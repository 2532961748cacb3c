// The circle of a link: one turn is its hyperperiod, one ring is a job, one arc is a burst. Around
// the rings lies the demand of all jobs, the capacity dashed, what is above it in black.

import { svg } from "./dom.js";
import { lengthOf, sweep } from "./pattern.js";
import { drawnSlots, overloaded, painted } from "./looks.js";

const HOLE = 46;
const RINGS = 146; // where the rings end
const FLOOR = 154; // demand 0
const CEILING = 184;
const LABELS = 194;
const FILL = 0.84; // of the width of a ring, at the peak rate of its job
const FAINTEST = 0.3;
const TICKS = 8;
const MOST_RINGS = 60;

// users: of one link, heaviest first; grab(event, position, circle) is called when a ring is taken.
export function drawCircle(users, link, hyperperiod, slotMs, grab = null) {
  const slots = drawnSlots(users, hyperperiod);
  const width = (RINGS - HOLE) / Math.max(1, Math.min(users.length, MOST_RINGS));
  const rings = users.slice(0, MOST_RINGS).map((_, position) => {
    const outer = RINGS - position * width;
    return ringOf(position, outer - width, width);
  });
  const demand = svg("path", { class: "demand" });
  const excess = overloaded();
  excess.group.setAttribute("class", "excess");
  const capacity = svg("circle", { class: "capacity" });
  const face = svg(
    "svg",
    { class: "circle", viewBox: "-236 -206 472 412", "aria-hidden": "true" },
    ...rings.map(({ group }) => group),
    svg("circle", { class: "floor", r: FLOOR }),
    demand,
    excess.group,
    capacity,
    ...ticks(slots, slotMs),
  );
  rings.forEach(({ group }, position) => {
    if (!grab || users[position].job.fixed) return;
    group.classList.add("turnable");
    group.addEventListener("pointerdown", (event) => grab(event, position, { face, slots }));
  });

  // highest: Mbit/s at the ceiling, the same for all circles that are compared.
  function update(placed, highest) {
    rings.forEach((ring, position) => ring.update(placed[position], slots));
    const height = (rate) => FLOOR + ((CEILING - FLOOR) * rate) / highest;
    const [below, above] = bands(placed, link.capacity, slots, height);
    demand.setAttribute("d", below);
    excess.draw(above);
    capacity.setAttribute("r", height(link.capacity));
  }

  return { face, rings, update, slots };
}

// Slots by which a pointer has turned around the centre of a circle since `from`, in (-half, half].
export function slotsBetween({ face, slots }, from, to) {
  const box = face.getBoundingClientRect();
  const angle = ({ clientX, clientY }) =>
    Math.atan2(clientY - box.top - box.height / 2, clientX - box.left - box.width / 2);
  const turn = (angle(to) - angle(from)) / (2 * Math.PI);
  return (turn - Math.round(turn)) * slots;
}

function ringOf(position, inner, width) {
  const track = svg("path", { class: "track", d: sector(inner, inner + FILL * width, 0, 1) });
  const bursts = painted(position);
  const radius = Math.min(9, (FILL * width) / 2);
  const label = radius >= 5 ? svg("text", { class: "number" }, `${position + 1}`) : null;
  const knob = svg("g", { class: "knob" }, svg("circle", { r: radius }), ...(label ? [label] : []));
  const group = svg("g", { class: "ring" }, track, bursts.group, knob);
  if (label) label.setAttribute("font-size", Math.min(11, 1.3 * radius));

  function update({ pattern, offset }, slots) {
    const peak = Math.max(...pattern.rates);
    const arcs = burstsOf(pattern, offset, slots);
    bursts.group.style.setProperty("--thin", Math.min(1, 30 / arcs.length));
    bursts.draw(
      arcs
        .map(({ start, length, rate }) => {
          const thickness = FILL * width * Math.max(FAINTEST, rate / peak);
          return sector(inner, inner + thickness, start / slots, (start + length) / slots);
        })
        .join(""),
    );
    const [x, y] = at(inner + (FILL * width) / 2, (arcs[0]?.start ?? 0) / slots);
    knob.setAttribute("transform", `translate(${x} ${y})`);
    knob.setAttribute("visibility", arcs.length ? "visible" : "hidden");
  }

  return { group, update };
}

// Bursts that begin in [0, slots). On a whole turn the last ones come round to the beginning; what
// lies outside a part of one is cut off.
function burstsOf(pattern, offset, slots) {
  const closed = slots % pattern.period === 0;
  const found = [];
  for (let turn = -pattern.period; turn < slots; turn += pattern.period) {
    pattern.rates.forEach((rate, index) => {
      const start = offset + turn + pattern.starts[index];
      const end = start + lengthOf(pattern, index);
      if (!rate || start >= slots || end <= 0 || (closed && start < 0)) return;
      const first = Math.max(start, 0);
      found.push({ start: first, length: (closed ? end : Math.min(end, slots)) - first, rate });
    });
  }
  return found.sort((a, b) => a.start - b.start);
}

// The demand up to the capacity, and what is above it, as rings of varying thickness.
function bands(users, capacity, slots, height) {
  const below = [];
  const above = [];
  sweep(users, slots, (slot, length, _, total) => {
    const [from, to] = [slot / slots, (slot + length) / slots];
    const carried = Math.min(total, capacity);
    if (carried) below.push(sector(FLOOR, height(carried), from, to));
    if (total > capacity) above.push(sector(height(capacity), height(total), from, to));
  });
  return [below.join(""), above.join("")];
}

function ticks(slots, slotMs) {
  return Array.from({ length: TICKS }, (_, tick) => {
    const [x, y] = at(LABELS, tick / TICKS);
    const time = (slots * slotMs * tick) / TICKS;
    const text = tick ? time.toLocaleString("en", { maximumFractionDigits: 1 }) : "0 ms";
    const side = tick % (TICKS / 2) === 0 ? "middle" : tick < TICKS / 2 ? "start" : "end";
    return svg("text", { class: `tick ${side}`, x, y }, text);
  });
}

// A point at so much of a turn, clockwise from the top.
function at(radius, turn) {
  const angle = 2 * Math.PI * turn;
  return [(radius * Math.sin(angle)).toFixed(2), (-radius * Math.cos(angle)).toFixed(2)];
}

// The path of a piece of a ring; an arc of SVG cannot go all the way round, so that halves do.
function sector(inner, outer, from, to) {
  if (to - from > 0.5) {
    const [middle, end] = [(from + to) / 2, Math.min(to, from + 1)];
    return sector(inner, outer, from, middle) + sector(inner, outer, middle, end);
  }
  const [r, s] = [inner.toFixed(2), outer.toFixed(2)];
  return (
    `M${at(inner, from)}L${at(outer, from)}A${s} ${s} 0 0 1 ${at(outer, to)}` +
    `L${at(inner, to)}A${r} ${r} 0 0 0 ${at(inner, from)}Z`
  );
}
