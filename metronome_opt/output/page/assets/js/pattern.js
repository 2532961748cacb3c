// What a job asks for over one period: a rate from each start on, until the next one.

// phases: [start, length, rate] inside an unstretched period; longer: slots by which bursts grow.
export function patternOf(phases, period, longer) {
  const bursts = phases.map(([start, length, rate]) => ({
    start,
    length: Math.min(length + longer, period),
    rate,
  }));
  const marks = bursts.flatMap(({ start, length }) => [start, (start + length) % period]);
  const starts = [...new Set([0, ...marks])].sort((a, b) => a - b);
  // A burst that grows into another one of its job does not add to it.
  const rates = starts.map((mark) =>
    Math.max(
      0,
      ...bursts
        .filter(({ start, length }) => (mark - start + period) % period < length)
        .map(({ rate }) => rate),
    ),
  );
  return { starts, rates, period };
}

export function lengthOf(pattern, index) {
  const next = index + 1 < pattern.starts.length ? pattern.starts[index + 1] : pattern.period;
  return next - pattern.starts[index];
}

// The volume of one flow in one iteration, Mbit/s x slots.
export function volumeOf(pattern) {
  return pattern.rates.reduce((sum, rate, index) => sum + rate * lengthOf(pattern, index), 0);
}

export function commonMultiple(periods) {
  return periods.reduce((multiple, period) => (multiple / divisorOf(multiple, period)) * period, 1);
}

function divisorOf(a, b) {
  return b ? divisorOf(b, a % b) : a;
}

// Goes through the slots [0, slots) in pieces in which nobody's demand changes.
//
// users: [{ pattern, offset, flows }]; visit(slot, length, demands, total) may return false to
// stop. `demands` is one array for all pieces: who wants to keep it copies it.
export function sweep(users, slots, visit) {
  const demands = new Array(users.length).fill(0);
  const nexts = new Array(users.length).fill(0); // the slot at which each demand changes next
  const indices = new Array(users.length).fill(0); // of the rate that begins there
  users.forEach(({ pattern, offset, flows }, user) => {
    const phase = (pattern.period - offset) % pattern.period; // where slot 0 is in the pattern
    let index = pattern.starts.length - 1;
    while (pattern.starts[index] > phase) index -= 1;
    demands[user] = flows * pattern.rates[index];
    nexts[user] = pattern.starts[index] + lengthOf(pattern, index) - phase;
    indices[user] = (index + 1) % pattern.starts.length;
  });
  let total = demands.reduce((sum, demand) => sum + demand, 0);
  for (let slot = 0; slot < slots; ) {
    const end = nexts.reduce((first, next) => Math.min(first, next), slots);
    if (visit(slot, end - slot, demands, total) === false) return;
    for (let user = 0; user < users.length; user += 1) {
      if (nexts[user] > end) continue;
      const { pattern, flows } = users[user];
      const index = indices[user];
      const demand = flows * pattern.rates[index];
      total += demand - demands[user];
      demands[user] = demand;
      nexts[user] = end + lengthOf(pattern, index);
      indices[user] = (index + 1) % pattern.starts.length;
    }
    slot = end;
  }
}
