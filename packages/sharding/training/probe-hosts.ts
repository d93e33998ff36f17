// Measures exchanges between hosts, with a process on this machine for each host. Each process has
// its devices' threads and a bridge, and the processes communicate through a broker, like the hosts
// of a run.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import {
  type Clock,
  type ConnectOptions,
  type CostProbeReport,
  type CostProbeTask,
  PeerLostError,
  realClock,
  startBrokerThread,
} from "../../../internal.ts";

/** The task that a host process receives at its start. */
export interface ProbeHost {
  readonly host: number;
  /** The host of each device. */
  readonly hostOf: readonly number[];
  readonly task: Omit<CostProbeTask, "program" | "rank" | "words" | "memory" | "sets">;
  readonly broker: Pick<ConnectOptions, "servers"> & { readonly token?: string };
}

/** The message of a host process: the report of each of its devices, or the reason of a failure. */
export type ProbeHostNews =
  | { readonly reports: readonly (readonly [rank: number, report: CostProbeReport])[] }
  | { readonly failed: string };

const program = fileURLToPath(new URL("probe-host-process.js", import.meta.url));

/** Longest duration of the exchanges of one call, start and end of the processes included. */
const deadlineMs = 300_000;

/**
 * Measures the exchanges of a task; returns the reports in the order of devices.
 * @throws PeerLostError where a host process fails, or reports nothing within five minutes
 */
export async function probeOverHosts(
  hostOf: readonly number[],
  task: ProbeHost["task"],
  clock: Clock = realClock,
): Promise<CostProbeReport[]> {
  const hosts = Math.max(...hostOf) + 1;
  await using broker = await startBrokerThread();
  const { token } = broker.auth === "open" ? {} : (broker.auth as { readonly token?: string });
  const login = { servers: broker.url, ...(token !== undefined && { token }) };
  const children = Array.from({ length: hosts }, (_, host) => {
    const child = fork(program, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    child.send({ host, hostOf, task, broker: login } satisfies ProbeHost);
    return child;
  });
  try {
    const news = await Promise.all(children.map((child, host) => newsOf(child, host, clock)));
    const reports = news.flatMap((own) => [...own]).sort(([a], [b]) => a - b);
    // A bridge must serve the other hosts until all of them are done.
    const ended = children.map((child) => (hasEnded(child) ? [] : once(child, "exit")));
    for (const child of children) child.send("end");
    await Promise.all(ended);
    return reports.map(([, report]) => report);
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

async function newsOf(child: ChildProcess, host: number, clock: Clock) {
  const name = `costs-host-${host}`;
  const limit = new AbortController();
  const cancel = clock.after(deadlineMs, () => limit.abort());
  try {
    const { signal } = limit;
    const received = once(child, "message", { signal }) as Promise<[ProbeHostNews]>;
    const left = once(child, "exit", { signal }).then(([code]) => {
      throw new PeerLostError(
        name,
        `its process ended with ${code} before it reported its measurements`,
      );
    });
    const [news] = await Promise.race([received, left]);
    limit.abort();
    await Promise.allSettled([received, left]);
    if ("reports" in news) return news.reports;
    throw new PeerLostError(name, news.failed);
  } catch (error) {
    if (error instanceof PeerLostError) throw error;
    throw new PeerLostError(name, `it reported nothing within ${deadlineMs} ms`, { cause: error });
  } finally {
    cancel();
  }
}

/** Whether a process has ended, by itself or by a signal. */
function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
