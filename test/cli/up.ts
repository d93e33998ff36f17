// `osiris up` as a separate process, for tests of the commands on its cluster.

import { once } from "node:events";
import { connect } from "node:net";
import type { ExecutionContext } from "ava";
import { startCli } from "../helpers/processes/start-cli.ts";

interface Up {
  readonly url: string;
  readonly tokenFile: string;
  readonly brokerPid: number;
}

export type StartedUp = Awaited<ReturnType<typeof startUp>>;

/** Starts a cluster that ends with the test; `at` has the flags that connect a command to it. */
export async function startUp(
  t: ExecutionContext,
  directory: string,
  more: readonly string[] = [],
) {
  const port = more.includes("--port") ? [] : ["--port", "0"];
  const cluster = startCli(["up", ...port, "--json", ...more], directory);
  t.teardown(() => cluster.kill("SIGKILL"));
  const up = JSON.parse(await cluster.line((line) => line.includes('"up"'))) as Up;
  const { url, tokenFile, brokerPid } = up;
  return { cluster, url, tokenFile, brokerPid, at: ["--nats", url] };
}

/** How many times, and at which interval, a port is checked: two minutes in all. */
const looksMax = 1200;
const lookEveryMs = 100;

/** Waits until the port of this URL has no listener; returns whether that happened in time. */
export async function falls(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  for (let look = 0; look < looksMax; look++) {
    const socket = connect(Number(port), hostname);
    const state = await once(socket, "connect").then(
      () => "listens",
      () => "refused",
    );
    socket.destroy();
    if (state === "refused") return true;
    await new Promise((resume) => setTimeout(resume, lookEveryMs));
  }
  return false;
}
