// Zion's models of production on its three platforms: which platform wins, not by how much, as the
// paper's servers, layers and columns are not known.

import { readHardware } from "../../hardware/read-hardware.ts";
import { speedOf, speedText, type Variant } from "./variants.ts";

const exact = { isHalf: false, isQuantised: false } as const;
/** Samples of an accelerator in a step; CPU servers take the batch of each model. */
const batch = 1600;
/** CPU servers of a job: the comparison is by watt, and hardly depends on their number. */
const servers = 8;

const models = [
  { model: "zion-m1", speed: 2.25, power: 4.3, isZionFaster: false },
  { model: "zion-m2", speed: 0.85, power: 2.8, isZionFaster: false },
  { model: "zion-m3", speed: 0.67, power: 0.43, isZionFaster: true },
] as const;

export function zionLines(): string[] {
  const rows = models.map(({ model, speed, power, isZionFaster }) => {
    const cpu: Variant = { model, hardware: "cpu-ps", hosts: servers, perHost: 1, ...exact };
    const onCpu = speedOf(cpu);
    const onBasin: Variant = { model, hardware: "big-basin", hosts: 1, batch, ...exact };
    const whole = speedOf(onBasin);
    const beside = remote(onBasin);
    const { speed: basin, hosts } = Number.isNaN(whole) ? beside : { speed: whole, hosts: 0 };
    const basinWatts = watts("big-basin") + hosts * watts("cpu-ps");
    const zion = speedOf({ model, hardware: "zion", hosts: 1, batch, ...exact });
    const ratio = basin / basinWatts / (onCpu / (servers * watts("cpu-ps")));
    const signs = [ratio > 1 === power > 1, zion > basin === isZionFaster];
    const cells = [
      ...[`\`${model}\``, speedText(onCpu), speedText(whole)],
      ...[
        `${speedText(beside.speed)}, ${beside.hosts}`,
        speedText(zion),
        ratio.toFixed(2),
        `${power} (${speed} the speed)`,
      ],
      ...[zion > basin ? "Zion" : "Big Basin", isZionFaster ? "Zion" : "Big Basin"],
      signs.every(Boolean) ? "yes" : "**no**",
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [
    "## Zion's platforms",
    "",
    `Samples a second of ${servers} CPU servers, of a Big Basin, and of a Zion, and Big Basin's samples a joule beside those of the`,
    "servers; the paper's columns are from memory. Where a Big Basin has no room, its rows lie on CPU servers: on as many of",
    `1 to ${servers} as give the most samples a joule. **Only who wins is compared.** Columns, layers and the ${batch} samples of an`,
    "accelerator are assumed; `zion-m3` is as large as it takes to exceed a Big Basin.",
    "",
    `| model | ${servers} CPU servers | Big Basin | with rows on servers, how many | Zion | Big Basin a joule | the paper | faster | the paper | as the paper |`,
    "|---|---|---|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "Where we differ: samples of M1 arrive at a Big Basin over one interface, and at a Zion over four, which decides between",
    "them. On servers, the lookups and updates of rows in their memory take most of a step, and then vectors and their",
    "gradients over 25 Gb/s each. The paper's servers are asynchronous, so that trainers wait less for them.",
    "",
  ];
}

/** A Big Basin with its rows on CPU servers, as many as give the most samples a joule. */
function remote(of: Variant): { readonly speed: number; readonly hosts: number } {
  const counts = Array.from({ length: servers }, (_, i) => i + 1);
  const tried = counts.flatMap((hosts) => {
    const speed = speedOf({ ...of, servers: { hosts, hardware: "cpu-ps" } });
    return Number.isNaN(speed) ? [] : [{ speed, hosts }];
  });
  const perJoule = ({ speed, hosts }: (typeof tried)[number]) =>
    speed / (watts("big-basin") + hosts * watts("cpu-ps"));
  const [best] = tried.sort((a, b) => perJoule(b) - perJoule(a));
  return best ?? { speed: Number.NaN, hosts: 0 };
}

function watts(kind: string): number {
  return readHardware(kind).host.watts ?? Number.NaN;
}
