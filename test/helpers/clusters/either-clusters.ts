// Clusters for tests of faults: in virtual time in `npm test`, on real threads in `npm run
// test:all`. Actors, thread programs, kernels and disk are real in both.

import type { ExecutionContext } from "ava";
import { breakableLauncher, type RunResult, throwIn } from "../../../index.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import { sharedResult } from "../../runner/shared-results.ts";
import { isTestAll } from "../thinned.ts";
import { calmResult, inEpochs, runJob, startTestCluster } from "./clusters.ts";
import type { EitherCluster, EitherOptions } from "./either-cluster.ts";
import { startVirtualCluster } from "./virtual-clusters.ts";

/** Starts a cluster whose own process has `devices` devices. */
export async function startCluster(
  devices = 2,
  options: EitherOptions = {},
): Promise<EitherCluster> {
  return isTestAll ? startOnThreads(devices, options) : startVirtualCluster(devices, options);
}

/** Starts the same on real threads, in every command. */
export async function startOnThreads(
  devices: number,
  { over = (launcher) => launcher, ...options }: EitherOptions,
): Promise<EitherCluster> {
  const threads = breakableLauncher();
  const place = await startTestCluster(devices, { ...options, launcher: over(threads.launcher) });
  const left: (() => unknown)[] = [];
  return {
    ...place,
    threads,
    async join(joining) {
      const { startHost } = await import("../processes/host-processes.ts");
      const teardown = (run: () => unknown) => void left.push(run);
      const host = await startHost({ teardown }, place.cluster, { devices: joining });
      return {
        kill: () => void host.kill("SIGKILL"),
        leave: () => void host.kill("SIGTERM"),
        ended: host.ended,
      };
    },
    throwIn: (target, reason) => throwIn(place.cluster, target, reason),
    cutBroker: () => place.cluster.killBroker(),
    async [Symbol.asyncDispose]() {
      for (const leave of left) await leave();
      await place[Symbol.asyncDispose]();
    },
  };
}

/**
 * Options with which actors whose name begins with `actors` (`reader:`) start with the given entry
 * file.
 */
export function startingWith(file: URL, actors: string): EitherOptions {
  const isOne = (name: string) => name.replace("-", ":").startsWith(actors);
  const over = (launcher: Launcher): Launcher => ({
    start: (entry, data, name) => launcher.start(isOne(name) ? file : entry, data, name),
  });
  return { over };
}

/** The result of the small job without faults, for each number of epochs. */
export function calmRun(epochs = 1): ReturnType<typeof calmResult> {
  if (isTestAll) return calmResult(epochs);
  return sharedResult(`calm-virtual-${epochs}`, async () => {
    await using place = startVirtualCluster();
    return (await runJob(place, inEpochs(place.job(), epochs))).result;
  });
}

/** Asserts that a run ended with the model and the history of the small job without faults. */
export async function equalsCalm(
  t: ExecutionContext,
  result: Pick<RunResult, "digest" | "history"> | undefined,
  calm: Promise<RunResult> = calmRun(),
): Promise<void> {
  const { digest, history } = await calm;
  t.is(result?.digest, digest);
  t.deepEqual(result?.history, history);
}
