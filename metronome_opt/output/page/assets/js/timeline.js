// The timeline of a link: stacked demand against capacity, the heaviest job at the bottom, because
// the link serves it first.

import { svg } from "./dom.js";
import { roughly } from "./format.js";
import { sweep } from "./pattern.js";
import { drawnSlots, overloaded, painted } from "./looks.js";

const HEIGHT = 168;
const DIGIT = 6.5; // pixels of a character on an axis
const RIGHT = 8;
const TOP = 12;
const BOTTOM = 24;

// width: pixels; highest: Mbit/s at the top, the same for all timelines that are compared.
export function drawTimeline(users, link, hyperperiod, slotMs, width) {
  const slots = drawnSlots(users, hyperperiod);
  const most = roughly(link.capacity);
  const left = 8 + DIGIT * most.length;
  const along = (slot) => (left + ((width - left - RIGHT) * slot) / slots).toFixed(2);
  const areas = users.map((_, position) => painted(position));
  const excess = overloaded();
  excess.group.setAttribute("class", "excess");
  const capacity = svg("line", { class: "capacity", x1: left, x2: width - RIGHT });
  const limit = svg("text", { class: "tick end", x: left - 5 }, most);
  const floor = HEIGHT - BOTTOM;
  const inner = { x: left, y: TOP, width: width - left - RIGHT, height: floor - TOP };
  const face = svg(
    "svg",
    {
      class: "timeline",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      "aria-hidden": "true",
    },
    svg("rect", { class: "track", ...inner }),
    ...areas.map(({ group }) => group),
    excess.group,
    capacity,
    limit,
    svg("text", { class: "tick end", x: left - 5, y: floor }, "0"),
    ...ticks(slots, slotMs, along, width),
  );

  function update(placed, highest) {
    const up = (rate) => (floor - ((floor - TOP) * rate) / (1.04 * highest)).toFixed(2);
    const boxes = placed.map(() => []);
    const late = [];
    sweep(placed, slots, (slot, length, demands, total) => {
      let below = 0;
      demands.forEach((demand, position) => {
        extend(boxes[position], slot, length, below, below + demand);
        below += demand;
      });
      extend(late, slot, length, link.capacity, total);
    });
    const path = ({ start, end, below, above }) =>
      `M${along(start)} ${up(below)}V${up(above)}H${along(end)}V${up(below)}Z`;
    areas.forEach(({ draw }, position) => draw(boxes[position].map(path).join("")));
    excess.draw(late.map(path).join(""));
    capacity.setAttribute("y1", up(link.capacity));
    capacity.setAttribute("y2", up(link.capacity));
    limit.setAttribute("y", up(link.capacity));
  }

  return { face, update, slots };
}

// The most that is asked for in any slot, Mbit/s; at least the capacity.
export function highestDemand(users, link, slots) {
  let highest = link.capacity;
  sweep(users, slots, (_slot, _length, _demands, total) => {
    highest = Math.max(highest, total);
  });
  return highest;
}

// Adds a piece to boxes, to the last one where it goes on at the same height.
function extend(boxes, start, length, below, above) {
  if (above <= below) return;
  const last = boxes.at(-1);
  const goesOn = last?.end === start && last.below === below && last.above === above;
  if (goesOn) last.end += length;
  else boxes.push({ start, end: start + length, below, above });
}

function ticks(slots, slotMs, along, width) {
  const count = width < 480 ? 4 : 8;
  return Array.from({ length: count + 1 }, (_, tick) => {
    const slot = (slots * tick) / count;
    const time = (slot * slotMs).toLocaleString("en", { maximumFractionDigits: 1 });
    const style = tick === count ? "tick end" : tick ? "tick middle" : "tick";
    return svg("text", { class: style, x: along(slot), y: HEIGHT - 6 }, tick ? time : "0 ms");
  });
}
