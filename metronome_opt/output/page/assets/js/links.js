// The list of links: the most contended first, now or unshifted, each with its load over time. One of them is chosen.

import { drawnOf, shown } from "./format.js";
import { exactly, find, html, named, svg } from "./dom.js";
import { sweep } from "./pattern.js";

const PAGE = 40; // links that are drawn at once
const COLUMNS = 60;
const LEVELS = 5;

export class LinkList {
  constructor(choose) {
    this.choose = choose;
    this.count = PAGE;
    this.list = find("link-list");
    find("link-search").addEventListener("input", () => this.#restart());
    this.sort = find("link-sort");
    this.sort.addEventListener("change", () => this.show(this.state));
    find("more-links").addEventListener("click", () => {
      this.count += PAGE;
      this.#fill();
    });
    this.list.addEventListener("keydown", (event) => this.#move(event));
  }

  // Sorts anew: while jobs are turned, links keep their positions.
  show(state) {
    this.state = state;
    const { model, before } = state;
    const now = (link) => model.report(link).contention;
    const unshifted = (link) => (before ? before.report(link).contention : now(link));
    const [first, second] = this.sort.value === "now" ? [now, unshifted] : [unshifted, now];
    this.order = model.users
      .map((_, link) => link)
      .filter((link) => model.users[link].length)
      .sort((a, b) => first(b).compare(first(a)) || second(b).compare(second(a)) || a - b);
    this.#restart();
  }

  // Draws again what has changed on some links.
  update(links) {
    for (const link of links) {
      const item = this.items.get(link);
      if (item) this.#draw(item, link);
    }
  }

  mark(link) {
    for (const [other, item] of this.items) {
      item.setAttribute("aria-selected", other === link);
      item.tabIndex = other === link ? 0 : -1;
    }
    const tabbable = this.items.get(link) ?? this.items.values().next().value;
    if (tabbable) tabbable.tabIndex = 0;
  }

  #restart() {
    this.count = PAGE;
    this.#fill();
  }

  #fill() {
    const { instance } = this.state.data;
    const wanted = find("link-search").value.trim().toLowerCase();
    const matches = ({ name }) => name.toLowerCase().includes(wanted);
    const found = this.order.filter((link) => matches(instance.links[link]));
    this.items = new Map(found.slice(0, this.count).map((link) => [link, this.#item(link)]));
    this.list.replaceChildren(...this.items.values());
    find("more-links").hidden = found.length <= this.count;
    find("link-count").textContent = drawnOf(this.items.size, found.length, "link");
    this.mark(this.state.link);
  }

  #item(link) {
    const { before } = this.state;
    const was = before ? `${shown(before.report(link).contention)} → ` : "";
    const item = html(
      "li",
      { role: "option", tabindex: -1, "data-link": link },
      named(this.state.data.instance.links[link].name),
      html("span", { class: "figures" }, was, html("span", { class: "loss" })),
      svg("svg", {
        class: "strip",
        viewBox: `0 0 ${COLUMNS} 10`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      }),
    );
    item.addEventListener("click", () => this.choose(link));
    this.#draw(item, link);
    return item;
  }

  #draw(item, link) {
    const { model, data } = this.state;
    const report = model.report(link);
    const { contention } = report;
    item.querySelector(".loss").replaceChildren(exactly(contention, shown(contention)));
    item.classList.toggle("contended", !contention.isZero);
    const loads = strip(model.placed(link), data.instance.links[link], report);
    item.querySelector(".strip").replaceChildren(...loads);
  }

  // Arrows move the choice, as in any list box.
  #move(event) {
    const links = [...this.items.keys()];
    const at = links.indexOf(this.state.link);
    const end = links.length - 1;
    const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: end }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const link = links[Math.max(0, Math.min(end, target))];
    this.choose(link);
    this.items.get(link).focus();
  }
}

// The peak load of each column: shades up to full, black where more is asked for than there is.
function strip(users, { capacity }, { hyperperiod }) {
  const peaks = new Array(COLUMNS).fill(0);
  sweep(users, hyperperiod, (slot, length, _, total) => {
    const first = Math.floor((slot * COLUMNS) / hyperperiod);
    const last = Math.ceil(((slot + length) * COLUMNS) / hyperperiod);
    for (let column = first; column < last; column += 1) {
      peaks[column] = Math.max(peaks[column], total);
    }
  });
  const levels = peaks.map((peak) =>
    peak > capacity ? LEVELS + 1 : Math.ceil((LEVELS * peak) / capacity),
  );
  const loads = [];
  for (let column = 0; column < COLUMNS; ) {
    let end = column + 1;
    while (levels[end] === levels[column]) end += 1;
    const box = { x: column, width: end - column, height: 10 };
    if (levels[column]) loads.push(svg("rect", { class: `load-${levels[column]}`, ...box }));
    column = end;
  }
  return loads;
}
