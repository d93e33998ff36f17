// Zion's models of production on its three platforms: which platform wins, not by how much, as the
// paper's servers, layers and columns are not known.

import { resolveJob } from "../../../../internal.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import { paperModel } from "../../papers/models.ts";
import { speedOf, speedText, type Variant } from "./variants.ts";

const exact = { isHalf: false, isQuantised: false } as const;
/** Samples of an accelerator in a step; CPU servers have those of the models. */
const batch = 1600;
/** CPU servers of a job: the comparison is by watt, and hardly depends on their number. */
const servers = 8;

const models = [
  { model: "zion-m1", speed: 2.25, power: 4.3, isZionFaster: false },
  { model: "zion-m2", speed: 0.85, power: 2.8, isZionFaster: false },
  { model: "zion-m3", speed: 0.67, power: 0.43, isZionFaster: true },
] as const;

export function zionLines(): string[] {
  const watts = (name: string) => readHardware(name).host.watts ?? Number.NaN;
  const rows = models.map(({ model, speed, power, isZionFaster }) => {
    const cpu: Variant = { model, hardware: "cpu-ps", hosts: servers, perHost: 1, ...exact };
    const onCpu = speedOf(cpu);
    const whole = speedOf({ model, hardware: "big-basin", hosts: 1, batch, ...exact });
    const isRemote = Number.isNaN(whole);
    const { most, hosts } = remoteLimit(model);
    const basin = isRemote ? most : whole;
    const basinWatts = watts("big-basin") + (isRemote ? hosts * watts("cpu-ps") : 0);
    const zion = speedOf({ model, hardware: "zion", hosts: 1, batch, ...exact });
    const ratio = basin / basinWatts / (onCpu / (servers * watts("cpu-ps")));
    const signs = [ratio > 1 === power > 1, zion > basin === isZionFaster];
    const cells = [
      ...[`\`${model}\``, speedText(onCpu), `${isRemote ? "at most " : ""}${speedText(basin)}`],
      ...[speedText(zion), ratio.toFixed(2), `${power} (${speed} the speed)`],
      ...[zion > basin ? "Zion" : "Big Basin", isZionFaster ? "Zion" : "Big Basin"],
      signs.every(Boolean) ? "yes" : "**no**",
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [
    "## Zion's platforms",
    "",
    `Samples a second of ${servers} CPU servers, of a Big Basin, and of a Zion, and Big Basin's samples a joule beside those of the`,
    "servers; the paper's columns are from memory. Tables that a Big Basin has no room for lie on parameter servers: its",
    "speed is then at most what its network and their memory carry. **Only who wins is compared.** Columns, layers",
    `and the ${batch} samples of an accelerator are assumed; \`zion-m3\` is as large as it takes to exceed a Big Basin.`,
    "",
    `| model | ${servers} CPU servers | Big Basin | Zion | Big Basin a joule | the paper | faster | the paper | as the paper |`,
    "|---|---|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "Where we differ: samples of M1 arrive at a Big Basin over one interface, and at a Zion over four, which decides between",
    "them; and the speed of M3 with parameter servers is a bound from above, as the servers' own work is not simulated.",
    "",
  ];
}

/** The most samples a second of a Big Basin whose tables lie on CPU servers, and their number. */
function remoteLimit(name: string): { most: number; hosts: number } {
  const { model, data } = resolveJob(paperModel(name));
  const { scaleOut } = readHardware("big-basin");
  const { host, device } = readHardware("cpu-ps");
  const bags = data.kind === "synthetic" ? Object.values(data.perFeature ?? {}) : [];
  let [tableBytes, vectorBytes, ids, rowBytes] = [0, 0, 0, 0];
  for (const [i, { rows, dim }] of model.tables.entries()) {
    const bag = bags[i]?.idsPerBag;
    const mean = bag !== undefined && "mean" in bag ? bag.mean : 1;
    tableBytes += rows * (4 * dim + 4);
    vectorBytes += 4 * dim;
    ids += mean;
    rowBytes += 4 * dim * mean;
  }
  const hosts = Math.ceil(tableBytes / host.memory.bytes);
  // Ids and gradients leave the Big Basin; rows are read, and then read and written.
  const network = (scaleOut.bandwidth * scaleOut.allToAllShare) / (vectorBytes + 4 * ids);
  return { most: Math.min(network, (hosts * device.memory.lookups) / (3 * rowBytes)), hosts };
}
