// Starts and stops an HTTP server: reports an unusable address in one sentence, and leaves no
// connection open after the end.

import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InputUnusableError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";

export interface Place {
  /** Address or name of an interface: `127.0.0.1`, `0.0.0.0`, `::1`, `localhost`. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/**
 * Listens, and resolves to the server's address, `http://host:port`. For a wildcard address such as
 * `0.0.0.0`, returns the address of this machine.
 * @throws InputUnusableError if the address or the port is not available
 */
export async function listenAt(server: Server, { host, port }: Place): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const place = `${host}:${port}`;
    const message = `Cannot serve on ${place}: ${reason}; name another port, or 0 for any free one`;
    throw new InputUnusableError(place, message, { cause });
  }
  const { port: actual } = server.address() as AddressInfo;
  const named = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${named.includes(":") ? `[${named}]` : named}:${actual}`;
}

/**
 * Stops accepting requests, waits up to `drainMs` for running ones, and then closes every
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
