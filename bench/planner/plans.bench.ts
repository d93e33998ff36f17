// Question: does the planner know which of two plans is better? Limit: a perfect rank correlation,
// as far as repeated measurements agree.

import { Option } from "commander";
import { type Bench, positive, together } from "../bench.ts";
import { planRankNames, planRankSeconds, rankedDevices, rankOfPlans } from "./plan-rank.ts";

interface PlansOptions {
  readonly seed: number;
}

export const plansBench: Bench<PlansOptions> = {
  question: "predicted beside measured work of random plans, on two devices and on four",
  options: [
    new Option("--seed <number>", "of tables, ids and plans").argParser(positive).default(727),
  ],
  measurements({ seed }) {
    return (["skewed", "published"] as const).flatMap((kind) =>
      rankedDevices.map((devices) => {
        const names = planRankNames(kind, devices);
        return together(names, planRankSeconds, () => rankOfPlans(kind, devices, seed));
      }),
    );
  },
};
