// A nats-server of a bench, on a free port of this machine.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface NatsServer extends AsyncDisposable {
  readonly url: string;
  /** The address for other servers of its cluster, if it has a cluster. */
  readonly routes: string | undefined;
  readonly pid: number;
}

/** Starts a server with these flags. @throws Error without a `nats-server` */
export async function startNatsServer(
  bench: string,
  flagsIn: (directory: string) => readonly string[] = () => [],
): Promise<NatsServer> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-nats-"));
  const ports = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", directory];
  const server = spawn("nats-server", [...ports, ...flagsIn(directory)], { stdio: "ignore" });
  await once(server, "spawn").catch(() => {
    rmSync(directory, { recursive: true, force: true });
    throw new Error(
      `bench ${bench} found no nats-server on the PATH: install one, then run it again.`,
    );
  });
  const { nats = [], cluster = [] } = await portsIn(directory);
  return {
    url: nats[0] ?? "",
    routes: cluster[0],
    pid: server.pid ?? 0,
    async [Symbol.asyncDispose]() {
      if (server.kill("SIGKILL")) await once(server, "exit");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Waits for the addresses of a server that was just started. */
async function portsIn(directory: string): Promise<{ nats?: string[]; cluster?: string[] }> {
  for (;;) {
    const file = readdirSync(directory).find((name) => name.endsWith(".ports"));
    const text = file === undefined ? "" : readFileSync(join(directory, file), "utf8");
    if (text.trimEnd().endsWith("}")) return JSON.parse(text);
    await sleep(10);
  }
}
