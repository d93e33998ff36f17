// Real root processes for tests: `osiris up --lease` as children, over a broker of the test's own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { type Client, connect, type JobOptions, startBroker } from "../../index.ts";
import { type Running, startCli } from "./cli.ts";
import { smallData, smallModel } from "./clusters.ts";

export interface RootPlace {
  readonly client: Client;
  /** Starts a process that leads or stands by, and waits until it does. Killed with the test. */
  start(devices?: number): Promise<Running>;
  /** Starts a host of two devices. */
  startHost(): Promise<Running>;
  job(overrides?: Partial<JobOptions>): JobOptions;
}

export async function startRootPlace(t: ExecutionContext): Promise<RootPlace> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-roots-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const broker = await startBroker({ auth: { token: "t" } });
  t.teardown(() => broker.close());
  const client = await connect({ nats: broker.url, token: "t" });
  t.teardown(() => client[Symbol.asyncDispose]());
  const at = ["--nats", broker.url, "--token", "t", "--json"];
  const start = async (args: readonly string[], report: string) => {
    const running = startCli([...args, ...at], directory);
    t.teardown(() => running.kill("SIGKILL"));
    await running.line((line) => line.includes(`"report":"${report}"`));
    return running;
  };
  let jobs = 0;
  return {
    client,
    start: (devices = 2) => {
      const few = devices === 0 ? ["--min-devices", "2"] : [];
      const own = ["--devices", `${devices}`, ...few, "--lease", join(directory, "lease")];
      return start(["up", ...own], "up");
    },
    startHost: () => start(["host", "--devices", "2"], "host"),
    job: ({ data, ...rest } = {}) => ({
      model: smallModel,
      data: { ...smallData, ...data, cache: join(directory, "cache") } as JobOptions["data"],
      evaluation: { everySteps: 15 },
      checkpoint: { everySteps: 10, directory: join(directory, `run-${jobs++}`) },
      stepDeadlineMs: 5000,
      ...rest,
    }),
  };
}
