// Real host processes for tests: `osiris host` as a child process, joined to a test's cluster.

import type { ExecutionContext } from "ava";
import type { Cluster, HostRecord } from "../../../internal.ts";
import { until } from "../until.ts";
import { type Running, startCli } from "./start-cli.ts";

export interface HostProcess extends Running {
  /** The host's index in the cluster. */
  readonly host: number;
}

/** Starts a host, and waits until it has joined the cluster. It is killed when the test ends. */
export async function startHost(
  t: Pick<ExecutionContext, "teardown">,
  cluster: Cluster,
  options: {
    readonly devices?: number;
    readonly cwd?: string;
    /** The broker's address as the host sees it. */
    readonly nats?: string;
    /** A command prefix that runs the host elsewhere. */
    readonly inside?: readonly string[];
    /** More arguments of the command. */
    readonly more?: readonly string[];
  } = {},
): Promise<HostProcess> {
  const { devices = 2, cwd = process.cwd(), nats = cluster.url, inside = [], more = [] } = options;
  const secret = cluster.token === undefined ? [] : ["--token", cluster.token];
  const at = ["--nats", nats, ...secret, "--cluster", cluster.name];
  const args = ["host", ...at, "--devices", `${devices}`, "--json", ...more];
  const running = startCli(args, cwd, inside);
  t.teardown(() => running.kill("SIGKILL"));
  const line = await running.line((one) => one.includes('"report":"host"'));
  return { ...running, host: (JSON.parse(line) as HostRecord).host };
}

/** Resolves once the cluster has exactly these hosts. */
export async function untilHosts(cluster: Cluster, hosts: readonly number[]): Promise<void> {
  const wanted = JSON.stringify(hosts);
  const isSo = () => JSON.stringify(cluster.hosts.map(({ host }) => host)) === wanted;
  await until(`the hosts ${wanted}`, isSo);
}
