// Where an HTTP server of ours listens, and how it ends: one sentence where the address cannot be
// had, and no connection left open behind it.

import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InputUnusableError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";

export interface Place {
  /** Address of an interface, or a name of it: `127.0.0.1`, `0.0.0.0`, `::1`. */
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
}

/**
 * Has the server listen, and resolves to its address for people and programs, `http://host:port`.
 * An address that means every interface is told as this machine's own.
 * @throws InputUnusableError where the address or the port cannot be had
 */
export async function listenAt(server: Server, { host, port }: Place): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const place = `${host}:${port}`;
    throw new InputUnusableError(place, `Cannot serve on ${place}: ${reason}`, { cause });
  }
  const { port: actual } = server.address() as AddressInfo;
  const named = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${named.includes(":") ? `[${named}]` : named}:${actual}`;
}

/**
 * Takes no further request, lets those that are being answered end for so long, and then cuts every
 * connection.
 */
export async function closeServer(server: Server, drainMs: number, clock: Clock): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  const cancel = clock.after(drainMs, () => server.closeAllConnections());
  await closed;
  cancel();
}
