// Several schedules of one instance, such as a front: each a dot over two of its objectives.

import { Rational } from "./rational.js";
import { stated } from "./format.js";
import { find, svg } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 200;
const MARGIN = { left: 84, right: 24, top: 16, bottom: 40 };
const SCALE = 10n ** 15n;

// A dot that is clicked is chosen; the list of schedules does the same by keyboard.
export function drawFront({ points }, choose) {
  const axes = points[0].stated.filter((name) => points.every(({ truth }) => truth[name] != null));
  find("front").hidden = points.length < 2 || axes.length < 2;
  if (find("front").hidden) return;
  const across = axisOf(points, axes[0], MARGIN.left, WIDTH - MARGIN.right);
  const up = axisOf(points, axes[1], HEIGHT - MARGIN.bottom, MARGIN.top);
  const dots = points.map((_, number) => {
    const dot = svg("circle", { class: "dot", cx: across.at(number), cy: up.at(number), r: 6 });
    dot.addEventListener("click", () => choose(number));
    return dot;
  });
  const floor = HEIGHT - MARGIN.bottom + 18;
  const axesPath = `M${MARGIN.left - 12} ${MARGIN.top}V${floor - 10}H${WIDTH}`;
  find("front-dots").replaceChildren(
    svg(
      "svg",
      { class: "front", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
      svg("path", { class: "axes", d: axesPath }),
      label(across.low, MARGIN.left, floor, "middle"),
      label(across.high, WIDTH - MARGIN.right, floor, across.low === across.high ? "none" : "end"),
      label(axes[0], WIDTH / 2, floor + 14, "middle"),
      label(up.low, MARGIN.left - 18, HEIGHT - MARGIN.bottom, "end"),
      label(up.high, MARGIN.left - 18, MARGIN.top + 4, up.low === up.high ? "none" : "end"),
      label(axes[1], MARGIN.left - 18, HEIGHT / 2, "end"),
      ...dots,
    ),
  );
}

export function markPoint(number) {
  document.querySelectorAll("#front-dots .dot").forEach((dot, index) => {
    dot.classList.toggle("chosen", index === number);
  });
}

// Where the schedules lie on an axis from the least value to the largest, and these as text.
function axisOf(points, name, from, to) {
  const values = points.map(({ truth }) => Rational.parse(truth[name]));
  const sorted = [...values].sort((a, b) => a.compare(b));
  const [least, most] = [sorted[0], sorted.at(-1)];
  const range = most.minus(least);
  return {
    low: stated(name, least),
    high: stated(name, most),
    at(number) {
      if (range.isZero) return (from + to) / 2;
      const { top, bottom } = values[number].minus(least).over(range);
      return from + ((to - from) * Number((top * SCALE) / bottom)) / Number(SCALE);
    },
  };
}

function label(text, x, y, style) {
  return svg("text", { class: `tick ${style}`, x, y }, text);
}
