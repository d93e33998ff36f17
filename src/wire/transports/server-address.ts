// Addresses of NATS servers as people write them:
// `nats://token@host:4222`, `nats://user:pass@host`.

import { connect } from "node:net";
import { expected } from "../../ports/check-options.ts";
import type { Clock } from "../../ports/clock.ts";

/** The first address, without its secrets. @throws InvalidOptionError */
export function addressOf(servers: readonly string[]): string {
  const { protocol, host } = urlOf(servers[0] ?? "");
  return `${protocol}//${host}`;
}

/** The host and port of an address. @throws InvalidOptionError */
export function endpointOf(server: string): { readonly host: string; readonly port: number } {
  const { hostname, port } = urlOf(server);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? 4222 : Number(port) };
}

/** The token, or the user and password, in the first address. */
export function secretsOf(servers: readonly string[]): {
  readonly token?: string;
  readonly user?: string;
  readonly pass?: string;
} {
  const url = urlOf(servers[0] ?? "");
  if (url.username === "") return {};
  const name = decodeURIComponent(url.username);
  if (url.password === "") return { token: name };
  return { user: name, pass: decodeURIComponent(url.password) };
}

function urlOf(server: string): URL {
  const text = server.includes("://") ? server : `nats://${server}`;
  const url = /^(nats|tls):\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.hostname !== "" && isEncoded(url)) return url;
  const shown = text.replace(/:\/\/.*@/s, "://***@"); // Hides the secrets.
  throw expected("servers", "addresses like `nats://127.0.0.1:4222`", shown);
}

/** Whether the secret in the address is well encoded. */
function isEncoded({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}:${password}`);
    return true;
  } catch {
    return false;
  }
}

// Finds the NATS servers that can be reached. A NATS server speaks first, so a silent one is down.

/**
 * Orders the servers: reachable servers first, each part in the given order. Rejects with the last
 * reason if none is reachable.
 */
export async function byReachability(
  servers: readonly string[],
  waitMs: number,
  clock: Clock,
): Promise<string[]> {
  const faults = await Promise.all(servers.map((server) => faultOf(server, waitMs, clock)));
  const present = servers.filter((_, index) => faults[index] === undefined);
  if (present.length === 0) throw faults[faults.length - 1];
  return [...present, ...servers.filter((_, index) => faults[index] !== undefined)];
}

/** Why a server cannot be reached; undefined once it has sent anything. */
function faultOf(server: string, waitMs: number, clock: Clock): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const socket = connect(endpointOf(server));
    const finish = (fault: Error | undefined) => {
      cancel();
      socket.destroy();
      resolve(fault);
    };
    const cancel = clock.after(waitMs, () => finish(new Error("it sends no greeting")));
    socket.once("data", () => finish(undefined));
    socket.once("error", finish);
    socket.once("close", () => finish(new Error("it closed the connection")));
  });
}
