// Retrains the cost networks on the published costs, and writes them where the bench reads them:
//
//   node dist/packages/sharding/bench/train-networks.js [--devices 4] [--epochs 1000] [--seed 1]
//     [--data ../shared/data/sharding] [--out packages/sharding/bench/networks]
//
// The same costs, seed and arithmetic give the same bytes. Prints the errors on samples that were
// held out from training.

import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeCostNetworks } from "../files/cost-networks-file.ts";
import { trainCostNetworks } from "../training/train-cost-networks.ts";
import { hasPublished, publishedCosts, publishedDevices, publishedHome } from "./published.ts";

const { values: flags } = parseArgs({
  options: {
    devices: { type: "string" },
    epochs: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    data: { type: "string", default: publishedHome },
    out: { type: "string", default: "packages/sharding/bench/networks" },
  },
});

if (hasPublished(flags.data)) {
  const chosenDevices = publishedDevices.filter((devices) => {
    return flags.devices === undefined || devices === Number(flags.devices);
  });
  console.log("devices  network     samples  held-out  test MSE  variance  digest");
  for (const devices of chosenDevices) {
    const [epochs, seed] = [Number(flags.epochs), Number(flags.seed)];
    const costs = publishedCosts(flags.data, devices);
    const { networks, reports } = await trainCostNetworks(costs, {
      ...{ epochs, seed, features: "published" },
    });
    for (const [name, report] of Object.entries(reports)) {
      const { samples, validMse, testMse, testVariance, digest } = report;
      const numbers = [samples, ...[validMse, testMse, testVariance].map(Math.round)];
      const cells = numbers.map((value) => value.toLocaleString("en-US").padStart(8));
      console.log(
        `${String(devices).padStart(7)}  ${name.padEnd(9)} ${cells.join("  ")}  ${digest}`,
      );
    }
    await writeCostNetworks(join(flags.out, `cpu-${devices}.safetensors`), networks, {
      source:
        `costs that github.com/citz73/csharding @0e5d60fa measured on ${devices} processes of a ` +
        "processor (MIT), of tables of github.com/facebookresearch/dlrm_datasets (MIT)",
      command:
        `node dist/packages/sharding/bench/train-networks.js --devices ${devices} --epochs ${epochs} ` +
        `--seed ${seed}`,
      reports: JSON.stringify(reports),
    });
  }
} else {
  console.error(`There are no published costs in ${flags.data}; name their directory with --data`);
  process.exitCode = 2;
}
