// Exact numbers: fractions of BigInts in lowest terms, the denominator positive.

export class Rational {
  constructor(top, bottom = 1n) {
    const divisor = greatestDivisor(top < 0n ? -top : top, bottom);
    this.top = top / divisor;
    this.bottom = bottom / divisor;
  }

  // Reads what Python's Fraction writes: "199/5", "-3".
  static parse(text) {
    const [top, bottom = "1"] = text.split("/");
    return new Rational(BigInt(top), BigInt(bottom));
  }

  plus({ top, bottom }) {
    return new Rational(this.top * bottom + top * this.bottom, this.bottom * bottom);
  }

  minus({ top, bottom }) {
    return new Rational(this.top * bottom - top * this.bottom, this.bottom * bottom);
  }

  times(other) {
    return new Rational(this.top * other.top, this.bottom * other.bottom);
  }

  // Of a positive divisor only: nothing here divides by anything else.
  over(other) {
    return new Rational(this.top * other.bottom, this.bottom * other.top);
  }

  compare(other) {
    const difference = this.top * other.bottom - other.top * this.bottom;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  get isZero() {
    return this.top === 0n;
  }

  toString() {
    return this.bottom === 1n ? `${this.top}` : `${this.top}/${this.bottom}`;
  }
}

export const ZERO = new Rational(0n);
export const ONE = new Rational(1n);

function greatestDivisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a || 1n;
}
