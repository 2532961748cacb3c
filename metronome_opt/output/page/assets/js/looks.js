// How the jobs of a link are told apart: by colour, by hatch, by number. The colours are those of
// `metronome solve --plot`; they stand in the style sheet.

import { svg } from "./dom.js";

const COLOURS = 8;
const DOT = "m-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0";
const RING = "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0";
// On a tile of 8 by 8; the first is plain.
const RISING = "M-2 2L2-2M0 8L8 0M6 10L10 6";
const FALLING = "M-2 6L2 10M0 0L8 8M6-2L10 2";
const LEVEL = "M0 4H8";
const UPRIGHT = "M4 0V8";
const DOTS = `M2 2${DOT}M6 6${DOT}`;
const HATCHES = [
  "",
  RISING,
  DOTS,
  FALLING,
  LEVEL,
  `M4 4${RING}`,
  UPRIGHT,
  LEVEL + UPRIGHT,
  LEVEL + UPRIGHT + RISING + FALLING,
  RISING + DOTS,
  FALLING + DOTS,
  LEVEL + DOTS,
  UPRIGHT + DOTS,
  `${RISING}M4 4${RING}`,
  `M4 4${RING}${DOTS}`,
  RISING + LEVEL,
];

// The patterns that fills refer to, to be put into the page once.
export function hatchDefinitions() {
  const tiles = HATCHES.map((path, index) => tile(`hatch-${index}`, path, "hatch"));
  const crosses = tile("crosses", RISING + FALLING, "cross");
  const hidden = { class: "definitions", "aria-hidden": "true" };
  return svg("svg", hidden, svg("defs", {}, ...tiles, crosses));
}

function tile(id, path, style) {
  const size = { width: 8, height: 8, patternUnits: "userSpaceOnUse" };
  return svg("pattern", { id, ...size }, svg("path", { d: path, class: style }));
}

// Two paths of one outline: the colour, and the hatch over it.
export function painted(position) {
  const turn = Math.floor(position / HATCHES.length);
  const hatch = (position + turn) % HATCHES.length;
  return outlined(`job-${position % COLOURS}`, hatch ? `url(#hatch-${hatch})` : "none");
}

// What is not served: black under white crosses, and nothing else is.
export function overloaded() {
  return outlined("overload", "url(#crosses)");
}

function outlined(style, fill) {
  const below = svg("path", { class: `area ${style}` });
  const above = svg("path", { class: "hatched", fill });
  const group = svg("g", {}, below, above);
  return {
    group,
    draw(d) {
      below.setAttribute("d", d);
      above.setAttribute("d", d);
    },
  };
}

export function swatch(position) {
  const { group, draw } = painted(position);
  draw("M1 1H17V17H1Z");
  return svg("svg", { class: "swatch", viewBox: "0 0 18 18", "aria-hidden": "true" }, group);
}

// Beyond this many bursts of a job a picture cannot be read; it shows the beginning and says so.
const MOST_BURSTS = 180;

export function drawnSlots(users, hyperperiod) {
  const limits = users.map(({ pattern }) => {
    const bursts = pattern.rates.filter((rate) => rate > 0).length;
    return Math.floor((MOST_BURSTS * pattern.period) / bursts);
  });
  return Math.max(1, Math.min(hyperperiod, ...limits));
}
