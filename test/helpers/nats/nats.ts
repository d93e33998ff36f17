// A real nats-server for a test: on a random port, in a directory of its own.

import { spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { until } from "../until.ts";

export interface NatsServer extends AsyncDisposable {
  /** The URL, such as `nats://127.0.0.1:41234`; `tls://` if the server encrypts. */
  readonly url: string;
  /** Kills the server, as when its machine fails. */
  kill(): Promise<void>;
  /** Stops the server with connections open (SIGSTOP), or resumes it (SIGCONT). */
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
}

/**
 * Options for a request of a raw client, whose default limit is a second: busy machines take
 * longer.
 */
export const patient = { timeout: 60_000 };

const env = { ...process.env, PATH: `${process.env.PATH ?? ""}:/usr/sbin` };

/** Whether a `nats-server` program is installed. */
export function hasNatsServer(): boolean {
  const places = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];
  return places.some((place) => {
    try {
      accessSync(join(place, "nats-server"), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Starts a server and waits until it accepts clients. `flags`: of the server program; `inside`: a
 * command that runs it.
 */
export async function startNatsServer(
  flags: readonly string[] = [],
  inside: readonly string[] = [],
): Promise<NatsServer> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-nats-"));
  const port = flags.includes("-p") ? [] : ["-p", "-1"];
  const own = ["-a", "127.0.0.1", ...port, "--ports_file_dir", directory];
  const [command = "", ...args] = [...inside, "nats-server", ...own, ...flags];
  const server = spawn(command, args, { stdio: "ignore", env });
  let isOver = false;
  const exited = new Promise<void>((resolve) => {
    const end = () => {
      isOver = true;
      resolve();
    };
    server.once("exit", end).once("error", end);
  });
  const stop = async (signal: NodeJS.Signals) => {
    server.kill(signal);
    await exited;
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    let url: string | undefined;
    await until("the port of a nats-server", () => {
      url = urlIn(directory);
      return url !== undefined || isOver;
    });
    if (url === undefined) throw new Error(`nats-server ended with ${server.exitCode}`);
    return {
      url,
      kill: () => stop("SIGKILL"),
      signal: (signal) => void server.kill(signal),
      [Symbol.asyncDispose]: () => stop("SIGTERM"),
    };
  } catch (error) {
    await stop("SIGKILL");
    throw error;
  }
}

/** The exit code of `nats-server -t`, which reads a configuration and starts nothing. */
export async function checkNatsConfig(file: string): Promise<number | null> {
  const server = spawn("nats-server", ["-c", file, "-t"], { stdio: "ignore", env });
  return new Promise((resolve) => server.once("exit", resolve));
}

/** The URL in the file of its ports, if the server has written it. */
function urlIn(directory: string): string | undefined {
  const file = readdirSync(directory).find((name) => name.endsWith(".ports"));
  const text = file === undefined ? "" : readFileSync(join(directory, file), "utf8");
  return /"((?:nats|tls):\/\/[^"]+)"/.exec(text)?.[1];
}
