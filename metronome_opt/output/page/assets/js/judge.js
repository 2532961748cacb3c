// What a schedule does to one link, from the definitions of docs/model.md, exactly.
//
// Volumes are whole and small enough for ordinary numbers (the page is refused otherwise);
// weights, means and shares are not, and are counted in BigInts.

import { ONE, Rational } from "./rational.js";
import { commonMultiple, patternOf, sweep } from "./pattern.js";

// users: [{ job, pattern, offset, flows, weight, phases, longer }]
export function judge(link, users) {
  const hyperperiod = commonMultiple(users.map(({ pattern }) => pattern.period));
  const classes = classesOf(users);
  const lost = classes.map(() => 0); // volume that each class lacks, the heaviest served first
  let late = 0;
  sweep(users, hyperperiod, (_, length, demands, total) => {
    let excess = total - link.capacity;
    if (excess <= 0) return;
    late += length * excess;
    for (let index = 0; excess > 0; index += 1) {
      const { members } = classes[index];
      const asked = members.reduce((sum, user) => sum + demands[user], 0);
      const taken = Math.min(asked, excess);
      excess -= taken;
      lost[index] += length * taken;
    }
  });
  const turn = BigInt(hyperperiod);
  const weighted = classes.reduce((sum, { weight }, i) => sum + weight * BigInt(lost[i]), 0n);
  const meanLate = new Rational(BigInt(late), turn);
  return {
    hyperperiod,
    shared: users.length > 1,
    contention: new Rational(weighted, turn),
    late: meanLate,
    score: ONE.minus(meanLate.over(new Rational(BigInt(link.capacity)))),
    cushion: late ? null : cushionOf(link, users, hyperperiod),
  };
}

// Weight classes, the lightest first: they lack first.
function classesOf(users) {
  const classes = new Map();
  users.forEach(({ weight }, user) => {
    if (!classes.has(weight)) classes.set(weight, { weight, members: [] });
    classes.get(weight).members.push(user);
  });
  return [...classes.values()].sort((a, b) => (a.weight < b.weight ? -1 : 1));
}

// The most slots by which every burst may grow before the link is overloaded; null if it never is.
function cushionOf(link, users, hyperperiod) {
  const peaks = users.map(({ pattern, flows }) => flows * Math.max(...pattern.rates));
  if (peaks.reduce((sum, peak) => sum + peak, 0) <= link.capacity) return null;
  let low = 0; // borne
  let high = Math.max(...users.map(({ pattern }) => pattern.period)); // not borne
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (bears(link, users, hyperperiod, middle)) low = middle;
    else high = middle;
  }
  return low;
}

function bears(link, users, hyperperiod, slots) {
  const grown = users.map((user) => ({
    ...user,
    pattern: patternOf(user.phases, user.pattern.period, user.longer + slots),
  }));
  let fits = true;
  sweep(grown, hyperperiod, (_slot, _length, _demands, total) => (fits = total <= link.capacity));
  return fits;
}
