// Exact numbers as people read them.

import { ONE, Rational, ZERO } from "./rational.js";

const MOST_DIGITS = 12;
const TEN = new Rational(10n);
const HUNDRED = new Rational(100n);

// Rounds half away from zero, with thousands separated.
export function decimal(value, digits) {
  const negative = value.top < 0n;
  const scaled = (negative ? -value.top : value.top) * 10n ** BigInt(digits);
  const rounded = (2n * scaled + value.bottom) / (2n * value.bottom);
  const text = `${rounded}`.padStart(digits + 1, "0");
  const whole = text.slice(0, text.length - digits).replace(/\B(?=(\d{3})+$)/g, ",");
  return `${negative && rounded ? "−" : ""}${whole}${digits ? `.${text.slice(-digits)}` : ""}`;
}

// Three digits or more. Only what is whole looks whole: reaching 0, or a score of 1, is a proof.
export function shown(value) {
  const size = value.compare(ZERO) < 0 ? ZERO.minus(value) : value;
  if (size.bottom === 1n || size.compare(new Rational(1000n)) >= 0) return decimal(value, 0);
  let digits = size.compare(TEN) >= 0 ? 1 : size.compare(ONE) >= 0 ? 2 : 3;
  while (digits < MOST_DIGITS && /\.0*$/.test(decimal(size, digits))) digits += 1;
  return decimal(value, digits);
}

export function percent(value) {
  return `${shown(value.times(HUNDRED))} %`;
}

// The value of an objective; null is a cushion without limit, or a score without shared links.
export function stated(name, value) {
  if (value === null) return name === "cushion" ? "no limit" : "–";
  return ["latency", "delay"].includes(name) ? percent(value) : shown(value);
}

export function milliseconds(slots, slotMs) {
  const time = slots instanceof Rational ? slots : new Rational(BigInt(slots));
  return `${shown(time.times(new Rational(BigInt(slotMs))))} ms`;
}

export function tenths(ms) {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return `${ms.toLocaleString("en", digits)} ms`;
}

export function gigabits(megabits) {
  return `${(megabits / 1000).toLocaleString("en", { maximumFractionDigits: 6 })} Gbit/s`;
}

// A rate on an axis.
export function roughly(megabits) {
  return `${(megabits / 1000).toLocaleString("en", { maximumSignificantDigits: 4 })} G`;
}

export function counted(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

// How much more or less than before, with its sign; a share of it unless that is 0.
export function change(value, before) {
  const difference = value.minus(before);
  if (difference.isZero) return "±0";
  const sign = difference.compare(ZERO) > 0 ? "+" : "";
  if (before.isZero) return sign + shown(difference);
  return `${sign}${decimal(difference.over(before).times(HUNDRED), 1)} %`;
}

// How many of something are drawn, if not all.
export function drawnOf(drawn, count, what) {
  const all = counted(count, what);
  return drawn < count ? `${drawn.toLocaleString("en")} of ${all}` : all;
}
