// osiris chaos --simulate and --crash-points: simulates clusters in virtual time, one for each
// seed, or one for each disk operation at which power is lost, and lists the schedules that failed.

import { crashKinds, crashPairs, crashPoints } from "../../../chaos/simulation/crash-points.ts";
import { shrinkScenario, simulateAll } from "../../../chaos/simulation/seeds.ts";
import {
  drawScenario,
  type Scenario,
  type SeedsSummary,
  type SimulationFailure,
  type SimulationVerdict,
} from "../../../internal.ts";
import { exitCodes } from "../../support/failure.ts";
import { count, duration, plural } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";

export interface SimulationArguments {
  readonly json?: boolean;
  readonly crashPoints?: true;
  /**
   * With `crashPoints`: the largest distance, in disk operations, between the two power losses of a
   * pair.
   */
  readonly pairs: number;
  readonly seeds: readonly number[];
  readonly jobs: number;
  readonly shrink: boolean;
}

/**
 * Exit codes by kind of failure, for scripts; where several kinds occur, the first in this list
 * counts.
 */
const failureCodes: readonly (readonly [SimulationFailure, number])[] = [
  ["crash", 1],
  ["safety", 3],
  ["liveness", 4],
];

/** Number of schedules between two lines of progress. */
const reportEvery = 100;

/** Runs the simulations that the options ask for; resolves to the exit code. */
export async function simulation(options: SimulationArguments): Promise<number> {
  const { seeds, jobs, shrink } = options;
  const isJson = options.json === true;
  const say = (line: string) => (isJson ? console.error(line) : console.log(line));
  const stop = new AbortController();
  using _interrupt = onInterrupt(() => stop.abort());
  const scenarios = await (options.crashPoints === true
    ? allCrashes(options.pairs, say)
    : seeds.map((seed) => drawScenario(seed)));
  const startMs = performance.now();
  const failed: SimulationVerdict[] = [];
  let done = 0;
  const onVerdict = (verdict: SimulationVerdict) => {
    done++;
    if (isJson) console.log(JSON.stringify(recordOf(verdict)));
    if (verdict.failure !== undefined) {
      failed.push(verdict);
      say(`seed ${verdict.scenario.seed}: ${verdict.failure}: ${verdict.reason}`);
    }
    if (done % reportEvery === 0) {
      const seconds = (performance.now() - startMs) / 1000;
      say(`${count(done)} of ${plural(scenarios.length, "schedule")} in ${duration(seconds)}`);
    }
  };
  const summary = await simulateAll(scenarios, { jobs, onVerdict, signal: stop.signal });
  if (shrink) for (const verdict of failed) await printSmallest(verdict, say);
  const seconds = (performance.now() - startMs) / 1000;
  printSummary(summary, seconds, say);
  if (isJson) console.log(JSON.stringify({ report: "simulation", ...summary, seconds }));
  if (stop.signal.aborted) return exitCodes.cancelled;
  const worst = failureCodes.find(([failure]) => failed.some((one) => one.failure === failure));
  return worst?.[1] ?? exitCodes.done;
}

/**
 * Scenarios that lose power at each disk operation of a run of each kind, and at each pair of
 * operations at most `pairs` apart.
 */
async function allCrashes(pairs: number, say: (line: string) => void): Promise<Scenario[]> {
  const all: Scenario[] = [];
  for (const kind of crashKinds) {
    const once = await crashPoints(kind);
    const twice = await crashPairs(kind, pairs);
    say(`${kind}: ${plural(once.length, "operation")}, ${plural(twice.length, "pair")}`);
    all.push(...once, ...twice);
  }
  return all;
}

async function printSmallest(
  { scenario, failure }: SimulationVerdict,
  say: (line: string) => void,
): Promise<void> {
  if (failure === undefined) return;
  const least = await shrinkScenario(scenario, failure);
  const faults = plural(least.faults.length, "fault");
  say(`seed ${scenario.seed}: smallest failing part: ${faults} of ${scenario.faults.length}`);
  say(JSON.stringify(least));
}

function printSummary(summary: SeedsSummary, seconds: number, say: (line: string) => void): void {
  const { schedules, faults, generations, events, virtualSeconds, failures } = summary;
  const injected = Object.entries(faults).sort(([a], [b]) => (a < b ? -1 : 1));
  say(
    `${plural(schedules, "schedule")}, ${plural(generations, "generation")}, ` +
      `${count(events)} events: ${duration(virtualSeconds)} of clusters in ${duration(seconds)}`,
  );
  for (const [kind, injections] of injected) say(`  ${kind.padEnd(20)} ${count(injections)}`);
  const seeds = failures.map(({ seed, failure }) => `${seed} (${failure})`).join(", ");
  say(failures.length === 0 ? "No schedule failed." : `Failed: ${seeds}`);
}

function recordOf({ scenario, failure, reason, injected, trace }: SimulationVerdict) {
  return { seed: scenario.seed, failure, reason, injected, trace, scenario };
}
