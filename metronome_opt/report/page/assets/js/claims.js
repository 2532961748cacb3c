// The claims of a job to look at, those of all jobs to take away; offsets are those of the moment.

import { counted } from "./format.js";
import { find, html } from "./dom.js";
import { claimsText, isTurned } from "./documents.js";

const UNPLACED =
  "An instance does not say where tasks run: every link is taken for a node of its own, with a " +
  "task for each flow; claims for a real cluster need the scenario. ";

export class Claims {
  constructor() {
    find("claim-job").addEventListener("change", () => this.update());
  }

  show(state) {
    this.state = state;
    const { data, model } = state;
    const owners = [...new Set(data.claims.map(([job]) => job))];
    find("claim-job").replaceChildren(
      ...owners.map((job) => html("option", { value: job }, model.jobs[job].name)),
    );
    find("claim-parts").hidden = !owners.length;
    find("claim-note").textContent = owners.length
      ? `${counted(data.claims.length, "claim")}, one for each task. ` +
        (data.placed ? "" : UNPLACED) +
        "Definitions, capacities and groups are written by metronome claims."
      : `There are no claims: ${data.no_claims}.`;
    this.update();
  }

  update() {
    const { data, model, point } = this.state;
    if (!data.claims.length) return;
    const job = Number(find("claim-job").value);
    find("claim-text").textContent = claimsText(data, model, point, job);
    find("claim-which").textContent = isTurned(model, point)
      ? "With the offsets as they are turned now, not those of the solver."
      : "With the offsets of the schedule as it was solved.";
  }

  all() {
    return claimsText(this.state.data, this.state.model, this.state.point);
  }
}
