// Lets the runs of this process search plans by learned costs.

import { searchPlansWith } from "../../../internal.ts";

/** Threads load the search only where a job has `planner.costs`. */
export function offerLearnedSearch(): void {
  searchPlansWith(new URL("../plans/run-source.js", import.meta.url).href);
}
