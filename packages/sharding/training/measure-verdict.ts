// The verdict on learned costs, on the machine that learned them: for sets of tables that no
// network was trained on, the threads of a run train the plan by learned costs and the plan by
// formulas in turn. The verdict lies beside the file of the costs, and decides whether the runs of
// this machine plan by them.

import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import {
  type Clock,
  gainMin,
  InvalidOptionError,
  type JobOptions,
  type Launcher,
  type MachineConstants,
  machineKeyOf,
  type OwnVerdict,
  planJob,
  prepareData,
  realClock,
  realDisk,
  resolveJob,
  type SampleTimes,
  type StepTimes,
  temporaryHome,
  timeSteps,
  type VerdictFile,
  verdictPathOf,
  workerLauncher,
} from "../../../internal.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { learnedPlans } from "../plans/learned-plan.ts";
import type { CostNetworks } from "../search/cost-networks.ts";
import { type HeldOutTable, heldOutJob, heldOutTables } from "./held-out-jobs.ts";

export interface VerdictOptions {
  /** The file of learned costs; the verdict is written beside it. */
  readonly path: string;
  readonly constants: MachineConstants;
  /** Sets of tables. */
  readonly sets: number;
  /** @default 1 */
  readonly seed?: number;
  /** Called with the number of measured sets. */
  readonly onSet?: (done: number) => void;
  /** The tables of set `index`. @default those of `heldOutTables` */
  readonly tablesOf?: (index: number) => readonly HeldOutTable[];
  /** Rounds of four passes that count, for each set. @default 2 */
  readonly rounds?: number;
  /** Durations of the first pass of a plan, and of each of the passes that count. */
  readonly times?: { readonly compiling: SampleTimes; readonly counting: SampleTimes };
}

const usualTimes = {
  compiling: { warmUpMs: 100, warmUpSteps: 60, longestMs: 1500, sampleMs: 4, samples: 0 },
  counting: { warmUpMs: 30, warmUpSteps: 8, longestMs: 600, sampleMs: 6, samples: 24 },
} satisfies VerdictOptions["times"];

/** Order of the passes that count: each way comes first and second in a pair equally often. */
const turns = ["learned", "formulas", "formulas", "learned"] as const;
const usualRounds = 2;

/**
 * Measures, writes the verdict, and returns it.
 * @throws InvalidOptionError where the costs are of several hosts, or there are too few sets
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureVerdict(
  options: VerdictOptions,
  launcher: Launcher = workerLauncher,
  clock: Clock = realClock,
): Promise<VerdictFile> {
  const { path, sets, seed = 1, onSet } = options;
  const { networks } = readCostNetworks(path);
  const { devices, batchSize, hosts = 1 } = networks;
  if (hosts > 1) {
    const message = `Expected costs of one host for a verdict, got those of ${hosts}: plans are measured on threads of one process`;
    throw new InvalidOptionError("--verdict", message);
  }
  const { tablesOf = (index: number) => heldOutTables(heldOutSeed + seed, index, devices) } =
    options;
  const gains: number[] = [];
  let differing = 0;
  for (let index = 0; index < sets; index++) {
    using home = temporaryHome("osiris-verdict-");
    const job = heldOutJob(tablesOf(index), batchSize, home.path) as JobOptions;
    const gain = await gainOf(job, networks, options, { launcher, clock });
    if (gain !== undefined) differing++;
    gains.push(gain ?? 0);
    onSet?.(index + 1);
  }
  const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
  const measured = { machine: machineKeyOf("auto"), sha256, batchSize, sets, differing };
  const file = { ...measured, verdict: { devices, ...verdictOf(gains) } };
  const temporary = `${verdictPathOf(path)}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(file, null, 2)}\n`);
  renameSync(temporary, verdictPathOf(path));
  return file;
}

/** First seed of the sets of tables that are measured. The bench draws its sets by small seeds. */
const heldOutSeed = 1_000_000;

/** Share of a step that the learned plan saves; undefined: both plans are the same. */
async function gainOf(
  options: JobOptions,
  networks: CostNetworks,
  { constants, times = usualTimes, rounds = usualRounds }: VerdictOptions,
  ports: { readonly launcher: Launcher; readonly clock: Clock },
): Promise<number | undefined> {
  const job = resolveJob(options);
  const { statistics, ...data } = await prepareData(job, realDisk, () => {});
  const devices = { hosts: 1, perHost: networks.devices };
  const setting = { devices, constants, statistics };
  const found = {
    learned: planJob(job, { ...setting, source: learnedPlans({ costs: networks }) }),
    formulas: planJob(job, setting),
  };
  if (!found.learned.isFeasible || !found.formulas.isFeasible) {
    throw new RangeError("A held-out set has room on any machine");
  }
  if (found.learned.sha256 === found.formulas.sha256) return undefined;
  const planned = {
    learned: resolveJob({ ...options, plan: JSON.parse(found.learned.text) }),
    formulas: resolveJob({ ...options, plan: JSON.parse(found.formulas.text) }),
  };
  const counted = Array.from({ length: rounds }, () => turns).flat();
  const compiled = (["learned", "formulas"] as const).map((way) => {
    return { job: planned[way], data, times: times.compiling };
  });
  const timed = counted.map((way) => ({ job: planned[way], data, times: times.counting }));
  const samples = await timeSteps([...compiled, ...timed], networks.devices, ports);
  const passes = samples.slice(compiled.length).map(medianMs);
  return pairedGain(counted, passes);
}

/** Median over the pairs of passes of the share that learned plans save. */
export function pairedGain(
  ways: readonly ("learned" | "formulas")[],
  passes: readonly number[],
): number {
  const gains = Array.from({ length: Math.floor(passes.length / 2) }, (_, pair) => {
    const [first = 0, second = 0] = passes.slice(2 * pair, 2 * pair + 2);
    const [learned, formulas] = ways[2 * pair] === "learned" ? [first, second] : [second, first];
    return 1 - learned / formulas;
  });
  return median(gains);
}

/** Median milliseconds of a step without the wait for its batch. */
function medianMs(samples: readonly StepTimes[]): number {
  return median(samples.map(({ stepMs, shares }) => stepMs * (1 - shares.batch)));
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [Math.floor((sorted.length - 1) / 2), Math.ceil((sorted.length - 1) / 2)];
  return ((sorted[low] ?? Number.NaN) + (sorted[high] ?? Number.NaN)) / 2;
}

/** Fewest sets from which an interval follows. */
export const setsMin = 4;

/**
 * The verdict on the gains of the sets: learned costs are faster where the mean gain is at least
 * `gainMin`, and its 95 % confidence interval (Student's t) lies above 0.
 * @throws InvalidOptionError where there are fewer than `setsMin` sets
 */
export function verdictOf(gains: readonly number[]): Omit<OwnVerdict, "devices"> {
  const n = gains.length;
  if (n < setsMin) {
    const message = `Expected at least ${setsMin} sets of tables for a verdict, got ${n}`;
    throw new InvalidOptionError("--sets", message);
  }
  const gain = gains.reduce((sum, own) => sum + own, 0) / n;
  const squares = gains.reduce((sum, own) => sum + (own - gain) ** 2, 0);
  const half = tQuantile(n - 1) * Math.sqrt(squares / (n - 1) / n);
  const [low, high] = [gain - half, gain + half];
  return { gain, low, high, isFaster: gain >= gainMin && low > 0 };
}

/** The 97.5 % quantile of the normal distribution. */
const z = 1.959963985;

/** The same of Student's t with `v` degrees of freedom (Cornish and Fisher), to 1 % from v = 3. */
export function tQuantile(v: number): number {
  const first = (z ** 3 + z) / 4;
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96;
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384;
  return z + first / v + second / v ** 2 + third / v ** 3;
}
