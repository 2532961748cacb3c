// An instance with an offset for each job, and what that comes to. Turning a job judges its links
// anew, no others.

import { Rational, ZERO } from "./rational.js";
import { patternOf, volumeOf } from "./pattern.js";
import { judge } from "./judge.js";

export class Model {
  // offsets, stretch: slots, one for each job; longer: slots by which every burst is longer.
  constructor(instance, offsets, stretch, longer) {
    this.instance = instance;
    this.longer = longer;
    this.jobs = instance.jobs.map((job, index) => ({
      ...job,
      index,
      weight: BigInt(job.weight),
      stretch: stretch[index],
      length: job.period + stretch[index],
      offset: offsets[index],
      pattern: patternOf(job.phases, job.period + stretch[index], longer),
    }));
    this.users = instance.links.map(() => []); // of each link, jobs with flows, heaviest first
    for (const job of this.jobs) {
      for (const [link, flows] of job.links) this.users[link].push({ job, flows });
    }
    for (const users of this.users) {
      users.sort((a, b) => compare(b.job.weight, a.job.weight));
    }
    this.reports = instance.links.map(() => null);
    this.sums = null;
  }

  // Rotates a job; offsets go round. A fixed job stays. Returns whether anything has changed.
  turn(index, offset) {
    const job = this.jobs[index];
    const turned = ((offset % job.length) + job.length) % job.length;
    if (job.fixed || turned === job.offset) return false;
    const links = job.links.map(([link]) => link);
    const before = links.map((link) => this.report(link));
    job.offset = turned;
    for (const link of links) this.reports[link] = null;
    if (this.sums) {
      links.forEach((link, position) => this.#exchange(before[position], this.report(link)));
    }
    return true;
  }

  report(link) {
    this.reports[link] ??= judge(this.instance.links[link], this.placed(link));
    return this.reports[link];
  }

  // The users of a link as the judge and the pictures want them.
  placed(link) {
    return this.users[link].map(({ job, flows }) => ({
      job,
      flows,
      offset: job.offset,
      weight: job.weight,
      pattern: job.pattern,
      phases: job.phases,
      longer: this.longer,
    }));
  }

  // Values by the names of docs/model.md; null is a cushion without limit, or no link to score.
  values() {
    this.sums ??= this.#sumUp();
    const reports = this.instance.links.map((_, link) => this.report(link));
    const scores = reports.filter(({ shared }) => shared).map(({ score }) => score);
    const cushions = reports.map(({ cushion }) => cushion).filter((cushion) => cushion !== null);
    const tightest = cushions.reduce((least, cushion) => Math.min(least, cushion), Infinity);
    return {
      contention: this.sums.contention,
      latency: this.traffic.isZero ? ZERO : this.sums.late.over(this.traffic),
      stretch: this.#total(
        ({ weight, stretch, period }) => new Rational(weight * BigInt(stretch), BigInt(period)),
      ),
      wait: this.#total((job) => new Rational(job.weight * this.#waited(job))),
      moves: this.#total(({ weight, current, offset }) =>
        current === null || current === offset ? ZERO : new Rational(weight),
      ),
      cushion: cushions.length ? new Rational(BigInt(tightest)) : null,
      score_mean: scores.length ? this.sums.score.over(new Rational(BigInt(scores.length))) : null,
      score_min: scores.length
        ? scores.reduce((least, score) => (score.compare(least) < 0 ? score : least))
        : null,
    };
  }

  // Slots for which a job is held back before it first begins.
  wait(index) {
    return new Rational(this.#waited(this.jobs[index]));
  }

  // The mean of all traffic, of jobs as if not stretched: stretching must not look like less of it.
  get traffic() {
    this.allTraffic ??= this.#total(({ phases, period, links }) => {
      const volume = BigInt(volumeOf(patternOf(phases, period, this.longer)));
      const flows = links.reduce((sum, [, count]) => sum + count, 0);
      return new Rational(BigInt(flows) * volume, BigInt(period));
    });
    return this.allTraffic;
  }

  #waited({ offset, ready, length }) {
    const turn = BigInt(length);
    return (((BigInt(offset) - BigInt(ready)) % turn) + turn) % turn;
  }

  #total(of) {
    return this.jobs.reduce((sum, job) => sum.plus(of(job)), ZERO);
  }

  #sumUp() {
    const sums = { contention: ZERO, late: ZERO, score: ZERO };
    this.instance.links.forEach((_, link) => addTo(sums, this.report(link), 1n));
    return sums;
  }

  #exchange(before, after) {
    addTo(this.sums, before, -1n);
    addTo(this.sums, after, 1n);
  }
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function addTo(sums, report, sign) {
  const signed = new Rational(sign);
  sums.contention = sums.contention.plus(report.contention.times(signed));
  sums.late = sums.late.plus(report.late.times(signed));
  if (report.shared) sums.score = sums.score.plus(report.score.times(signed));
}
