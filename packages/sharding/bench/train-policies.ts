// Retrains the placement policies of the bench, and writes them where the bench reads them:
//
//   node dist/packages/sharding/bench/train-policies.js [--only dreamshard-4] [--seed 1]
//     [--data ../shared/data/sharding] [--out packages/sharding/bench/networks]
//
// The same tables, cost networks, seed and arithmetic give the same bytes. Prints the figures of
// each turn of the training.

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openKernels } from "../../../src/kernels/index.ts";
import { writePolicy } from "../files/policy-file.ts";
import type { PlacementPolicy } from "../policies/placement-policy.ts";
import { trainAuto, trainDream } from "./policies/subjects.ts";
import { hasPublished, publishedHome } from "./published.ts";

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    seed: { type: "string", default: "1" },
    data: { type: "string", default: publishedHome },
    out: { type: "string", default: "packages/sharding/bench/networks" },
  },
});

const kernels = openKernels("auto");
const seed = Number(flags.seed);
const say = (line: string) => console.log(line);
const trainings: Readonly<Record<string, () => PlacementPolicy>> = {
  "dreamshard-4": () => trainDream(kernels, 4, { data: flags.data, seed, say }),
  "dreamshard-8": () => trainDream(kernels, 8, { data: flags.data, seed, say }),
  "dreamshard-4-no-costs": () => {
    return trainDream(kernels, 4, { data: flags.data, seed, say, hasCosts: false });
  },
  autoshard: () => trainAuto(kernels, { data: flags.data, seed, say }),
  "autoshard-half": () => trainAuto(kernels, { data: flags.data, seed, say, isHalf: true }),
};

if (hasPublished(flags.data)) {
  for (const [name, train] of Object.entries(trainings)) {
    if (flags.only !== undefined && flags.only !== name) continue;
    console.log(name);
    const policy = train();
    await writePolicy(join(resolve(flags.out), `${name}.safetensors`), policy, {
      source:
        "plans of tables of github.com/facebookresearch/dlrm_datasets (MIT), with costs by the " +
        "networks of packages/sharding/bench/networks",
      command: `node dist/packages/sharding/bench/train-policies.js --only ${name} --seed ${seed}`,
      arithmetic: kernels.arithmetic,
    });
  }
} else {
  console.error(`There are no published tables in ${flags.data}; name their directory with --data`);
  process.exitCode = 2;
}
