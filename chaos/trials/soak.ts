// Soak test: trains a job repeatedly while parts of it are killed at intervals. Unlike schedules,
// it uses wall time, as a mean time between failures does; targets and intervals are drawn from the
// seed.

import type { JobOptions } from "../../src/job/job.ts";
import { realClock } from "../../src/ports/clock.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import type { EnvironmentSize } from "../faults/draw.ts";
import { checkSchedule } from "../faults/schedule.ts";
import type { Environment } from "./environment.ts";
import type { FaultedRunOptions } from "./faulted-run.ts";
import { runTrial, type Trial } from "./trial.ts";
import type { ReferenceRun } from "./verdict.ts";

export interface SoakOptions extends FaultedRunOptions {
  readonly seed: number;
  readonly environment: EnvironmentSize;
  /** No run starts after this time; the current run ends without further kills. */
  readonly forMs: number;
  /** Mean time between kills; each interval is drawn from 0.5 to 1.5 times the mean. */
  readonly everyMs: number;
  /** Called with each kill. */
  readonly onKill: (what: string, afterMs: number) => void;
  readonly onTrial: (trial: Trial) => void;
}

/**
 * Runs a soak test and returns its trials and the number of kills. It ends at the first failed
 * trial.
 */
export async function soak(
  job: JobOptions,
  reference: ReferenceRun,
  options: SoakOptions,
): Promise<{ readonly trials: readonly Trial[]; readonly kills: number }> {
  const { seed, environment: size, forMs, onTrial, signal } = options;
  const random = new RandomStream(seed, purposes.faults);
  const schedule = checkSchedule({ version: 1, seed, environment: size, faults: [] });
  const startedAtMs = realClock.now();
  const passed = () => realClock.now() - startedAtMs;
  const trials: Trial[] = [];
  let kills = 0;
  const draw = () => ({
    afterMs: options.everyMs * (0.5 + random.uniform()),
    target: drawTarget(random, size),
  });
  let kill = draw();
  /** Time until the next kill; what is left of it when a run ends carries over to the next run. */
  let leftMs = kill.afterMs;
  const disturb = (environment: Environment) => {
    let armedAtMs = 0;
    let cancel = () => {};
    const arm = () => {
      armedAtMs = realClock.now();
      cancel = realClock.after(leftMs, () => {
        if (passed() < forMs && inject(environment, kill.target)) {
          kills++;
          options.onKill(kill.target, kill.afterMs);
        }
        kill = draw();
        leftMs = kill.afterMs;
        arm();
      });
    };
    arm();
    return () => {
      cancel();
      leftMs = Math.max(0, leftMs - (realClock.now() - armedAtMs));
    };
  };
  while (passed() < forMs && signal?.aborted !== true) {
    const trial = await runTrial(job, schedule, reference, { ...options, disturb });
    trials.push(trial);
    onTrial(trial);
    if (trial.verdict !== "equal") break;
  }
  return { trials, kills };
}

function drawTarget(random: RandomStream, { devices, hosts }: EnvironmentSize): string {
  const ranks = devices * Math.max(1, hosts);
  const place = random.below(ranks + hosts + 2);
  if (place < ranks) return `device:${place}`;
  if (place < ranks + hosts) return `host:${1 + place - ranks}`;
  return place === ranks + hosts ? "reader:0" : "leader";
}

/** Kills a target; false if it does not exist at the moment. */
function inject(environment: Environment, target: string): boolean {
  const [role = "", index = "0"] = target.split(":");
  if (role === "leader" || role === "host") {
    const process = environment.process(target);
    process?.signal("SIGKILL");
    return process !== undefined;
  }
  const process = environment.processOf(role === "reader" ? "reader" : "device", Number(index));
  process?.send({ order: "kill", actor: target });
  return process !== undefined;
}
