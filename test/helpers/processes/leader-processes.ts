// Real leader processes for tests: `osiris up --lease` as child processes, over a broker of the
// test's own. Each has a home of its own, as on a machine of its own.

import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { type Client, connect, type JobOptions, startBroker } from "../../../internal.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../clusters/clusters.ts";
import { type Running, startCli } from "./start-cli.ts";

/** A process, and the directory of all files of its own. */
export type AtHome = Running & { readonly home: string };

export interface LeaderPlace {
  readonly client: Client;
  /**
   * Starts a process and waits until it leads or stands by. It is killed with the test. `flags`:
   * flags of Node.
   */
  start(devices?: number, flags?: readonly string[]): Promise<AtHome>;
  /** Starts a host of two devices. */
  startHost(): Promise<AtHome>;
  job(overrides?: Partial<JobOptions>): JobOptions;
}

/**
 * Starts a broker and a client, whose processes `start` adds. `url`: of a server that accepts any
 * client, instead of an embedded broker. `lease`: its location; left out: a shared directory.
 */
export async function startLeaderPlace(
  t: ExecutionContext,
  { url, lease }: { readonly url?: string; readonly lease?: string } = {},
): Promise<LeaderPlace> {
  const directory = startDirectory(t);
  const broker = url === undefined ? await startBroker({ auth: { token: "t" } }) : undefined;
  t.teardown(() => broker?.close());
  const nats = broker?.url ?? url ?? "";
  const client = await connect({ nats, token: "t" });
  t.teardown(() => client[Symbol.asyncDispose]());
  const at = ["--nats", nats, "--token", "t", "--json"];
  const start = async (args: readonly string[], report: string, flags: readonly string[] = []) => {
    const home = mkdtempSync(join(directory, "home-"));
    const own = ["HOME", "TMPDIR", "XDG_CACHE_HOME"].map((name) => `${name}=${home}`);
    const running = startCli([...args, ...at], home, ["env", ...own], flags);
    t.teardown(() => running.kill("SIGKILL"));
    await running.line((line) => line.includes(`"report":"${report}"`));
    return { ...running, home };
  };
  let jobs = 0;
  return {
    client,
    start: (devices = 2, flags = []) => {
      const few = devices === 0 ? ["--min-devices", "2"] : [];
      const own = ["--devices", `${devices}`, ...few, "--lease", lease ?? join(directory, "lease")];
      return start(["up", ...own], "up", flags);
    },
    startHost: () => start(["host", "--devices", "2"], "host"),
    job: ({ data, ...rest } = {}) => ({
      model: smallModel,
      data: { ...smallData, cache: join(directory, "cache"), ...data } as JobOptions["data"],
      evaluation: { everySteps: 15 },
      checkpoint: { everySteps: 10, directory: join(directory, `run-${jobs++}`) },
      stepDeadlineMs: 5000,
      ...rest,
    }),
  };
}
