// Question: does the planner know which of two plans is better? Limit: it always does, as far as
// the measurement agrees with itself.

import { type Bench, together } from "../bench.ts";
import { planRankNames, planRankSeconds, rankedDevices, rankOfPlans } from "./plan-rank.ts";

export const plansBench: Bench = {
  question: "predicted beside measured work of random plans, on two devices and on four",
  options: [],
  measurements() {
    return (["skewed", "published"] as const).flatMap((kind) =>
      rankedDevices.map((devices) => {
        const names = planRankNames(kind, devices);
        return together(names, planRankSeconds, () => rankOfPlans(kind, devices));
      }),
    );
  },
};
