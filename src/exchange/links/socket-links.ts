// Direct links over sockets: listens and dials on TCP and on a Unix socket, says the hellos
// (link-hello.ts), and keeps the connections. A carrier moves the frames of a connection after its
// hello: on threads of the addon (native-links.ts), or on this event loop (net-links.ts).
//
// Invariants
//   S1. At most one connection of each host sends to this one: a new one ends the one before.
//   S2. Every connection that is opening has a deadline, and their number is bounded.

import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LinkUnusableError } from "../../errors/errors.ts";
import { guarded } from "../../wire/http/answering.ts";
import type { Extent } from "../exchange.ts";
import {
  type DirectFrame,
  type DirectLinks,
  type DirectLinksOptions,
  type LinkAddress,
  linkVersion,
} from "./direct-links.ts";
import { type ArrivedFrame, linkFrameBytesMax } from "./link-frames.ts";
import { encodeAnswer, NotOpened, sayHello, takeHello } from "./link-hello.ts";

/** The pre-shared key of TLS, if the connection has TLS, and the deadline of its handshake. */
export interface LinkTls {
  readonly key: Uint8Array | undefined;
  readonly openMs: number;
}

/** Moves the frames of connections. A socket belongs to it from the hello on. */
export interface LinkCarrier {
  /** Resolves when frames may be sent: for TLS, after its handshake. */
  outgoing(
    socket: Socket,
    tls: LinkTls,
    ended: (reason: string) => void,
  ): Promise<OutgoingConnection>;
  /** Sends the answer, then takes frames; for TLS, after its handshake. */
  incoming(
    socket: Socket,
    tls: LinkTls,
    of: {
      readonly answer: Uint8Array;
      readonly regions: ReadonlyMap<number, Extent>;
      arrived(frames: readonly ArrivedFrame[]): void;
      ended(reason: string): void;
    },
  ): IncomingConnection;
  /** Called when all its connections were ended. */
  close(): void;
}

export interface IncomingConnection {
  /** When it returns, no more bytes are written. */
  end(): void;
}

export interface OutgoingConnection {
  send(frame: DirectFrame): void;
  end(): void;
}

export function createSocketLinks(options: DirectLinksOptions, carrier: LinkCarrier): DirectLinks {
  return new SocketLinks(options, carrier);
}

/** Most connections that are opening at once, beyond those of admitted hosts. */
const openingMax = 64;

class SocketLinks implements DirectLinks {
  readonly frameBytesMax = linkFrameBytesMax;
  readonly #options: DirectLinksOptions;
  readonly #carrier: LinkCarrier;
  readonly #servers: Server[] = [];
  readonly #tokens = new Map<number, Uint8Array>();
  readonly #opening = new Set<Socket>();
  readonly #outgoing = new Map<number, OutgoingConnection>();
  readonly #incoming = new Map<number, IncomingConnection>();
  #isClosed = false;

  constructor(options: DirectLinksOptions, carrier: LinkCarrier) {
    this.#options = options;
    this.#carrier = carrier;
  }

  async listen(): Promise<LinkAddress> {
    const { address, port = 0, isEncrypted } = this.#options.listen;
    const server = await this.#serve({ host: address, port }, isEncrypted);
    const at = server.address();
    const known = { version: linkVersion, host: address, isEncrypted };
    const bound = typeof at === "object" && at !== null ? at.port : port;
    const path = await this.#listenLocally();
    const machine = machineId();
    const isLocal = path !== undefined && machine !== undefined;
    return { ...known, port: bound, ...(isLocal && { local: { path, machine } }) };
  }

  admit(host: number, token: Uint8Array): void {
    this.#tokens.set(host, token);
  }

  async dial(host: number, address: LinkAddress, token: Uint8Array): Promise<void> {
    this.hangUp(host);
    const { local, version } = address;
    const name = `to ${address.host}:${address.port}`;
    if (version !== linkVersion) {
      const versions = `it has ${version}, this host ${linkVersion}`;
      throw new LinkUnusableError(name, `the versions of direct links differ: ${versions}`);
    }
    const isHere = local !== undefined && local.machine === machineId() && existsSync(local.path);
    try {
      // In another container of this machine the socket's path may not connect: TCP still does.
      const isDone = isHere && (await this.#dialTo(host, { path: local.path }, token, false));
      if (isDone) return;
      const { port, isEncrypted } = address;
      await this.#dialTo(host, { host: address.host, port }, token, isEncrypted);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new LinkUnusableError(name, reason, { cause: error });
    }
  }

  isOpen(host: number): boolean {
    return this.#outgoing.has(host);
  }

  send(host: number, frame: DirectFrame): void {
    this.#outgoing.get(host)?.send(frame);
  }

  hangUp(host: number): void {
    this.#outgoing.get(host)?.end();
    this.#outgoing.delete(host);
  }

  fence(host: number): void {
    this.#incoming.get(host)?.end();
    this.#incoming.delete(host);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#tokens.clear();
    for (const socket of this.#opening) socket.destroy();
    for (const host of [...this.#outgoing.keys()]) this.hangUp(host);
    for (const host of [...this.#incoming.keys()]) this.fence(host);
    this.#carrier.close();
    const servers = this.#servers.splice(0);
    await Promise.all(servers.map((one) => new Promise((closed) => one.close(closed))));
  }

  /** Connects and says the hello. Resolves to false where a Unix socket cannot be connected. */
  async #dialTo(
    host: number,
    to: { readonly path: string } | { readonly host: string; readonly port: number },
    token: Uint8Array,
    isEncrypted: boolean,
  ): Promise<boolean> {
    const { place, host: from } = this.#options;
    const socket = connect({ ...to, noDelay: true });
    const cancel = this.#open(socket);
    try {
      const failure = await connected(socket);
      if (failure !== undefined && "path" in to) return false;
      if (failure !== undefined) throw failure;
      const { key } = await sayHello(socket, { place, isEncrypted, from, to: host, token });
      await this.#begin(host, socket, isEncrypted ? key : undefined);
      return true;
    } catch (error) {
      socket.destroySoon();
      throw error;
    } finally {
      cancel();
    }
  }

  async #begin(host: number, socket: Socket, key: Uint8Array | undefined): Promise<void> {
    const { openMs } = this.#options;
    let connection: OutgoingConnection | undefined;
    connection = await this.#carrier.outgoing(socket, { key, openMs }, (reason) => {
      if (connection === undefined || this.#outgoing.get(host) !== connection) return;
      this.#outgoing.delete(host);
      this.#options.lost(host, "outgoing", reason);
    });
    this.hangUp(host); // Another call may have dialled meanwhile.
    if (this.#isClosed) connection.end();
    else this.#outgoing.set(host, connection);
  }

  /** A Unix socket for the processes of this machine; undefined where there can be none. */
  async #listenLocally(): Promise<string | undefined> {
    try {
      // No folder of its own, which would stay where the thread is terminated.
      const path = join(tmpdir(), `osiris-link-${randomUUID()}`);
      await this.#serve({ path }, false);
      return path;
    } catch {
      return undefined;
    }
  }

  /** @throws LinkUnusableError */
  #serve(
    at: { readonly path: string } | { readonly host: string; readonly port: number },
    isEncrypted: boolean,
  ): Promise<Server> {
    const take = (socket: Socket) => this.#take(socket, isEncrypted);
    const refuse = (error: unknown, socket: Socket) => {
      socket.destroy();
      this.#options.refused(nameOf(socket), String(error));
    };
    const server = createServer({ noDelay: true }, guarded(take, refuse));
    this.#servers.push(server);
    return new Promise((resolve, reject) => {
      // Later ones, such as too many open files, are failures of connections.
      server.on("error", (error) => {
        const name = "path" in at ? at.path : `${at.host}:${at.port}`;
        reject(new LinkUnusableError(`at ${name}`, error.message, { cause: error }));
      });
      server.listen(at, () => resolve(server));
    });
  }

  /** Takes the hello of a connection. */
  async #take(socket: Socket, isEncrypted: boolean): Promise<void> {
    const { place, host } = this.#options;
    const name = nameOf(socket);
    const isFull = this.#opening.size >= openingMax + this.#tokens.size; // S2
    const cancel = this.#open(socket);
    try {
      if (isFull) throw new NotOpened("too many connections are opening", "full");
      const hello = await takeHello(socket, {
        ...{ place, host, isEncrypted },
        tokenOf: (from) => this.#tokens.get(from),
        use: (from) => void this.#tokens.delete(from),
      });
      this.#accept(socket, hello, isEncrypted);
    } catch (error) {
      if (this.#isClosed) return;
      socket.end(encodeAnswer(error instanceof NotOpened ? error.refusal : "mark"));
      socket.destroySoon();
      if (!(error instanceof NotOpened)) throw error;
      this.#options.refused(name, error.message);
    } finally {
      cancel();
    }
  }

  #accept(
    socket: Socket,
    hello: { readonly host: number; readonly answer: Buffer; readonly key: Buffer },
    isEncrypted: boolean,
  ): void {
    const options = this.#options;
    const { generation } = options.place;
    const { host: from, answer, key } = hello;
    if (this.#incoming.has(from)) {
      this.fence(from); // S1
      options.lost(from, "incoming", "the other host opened a new one");
    }
    const regions = new Map([...options.regionsOf(from)].map((of) => [of.route, of.region]));
    const tls = { key: isEncrypted ? key : undefined, openMs: options.openMs };
    const connection = this.#carrier.incoming(socket, tls, {
      ...{ regions, answer },
      arrived: (frames) => {
        if (this.#incoming.get(from) !== connection) return;
        options.arrived(
          from,
          frames.map((frame) => ({ ...frame, generation, from })),
        );
      },
      ended: (reason) => {
        if (this.#incoming.get(from) !== connection) return;
        this.#incoming.delete(from);
        options.lost(from, "incoming", reason);
      },
    });
    this.#incoming.set(from, connection);
  }

  /**
   * Counts a socket as opening, and destroys it at the deadline. The returned function ends both.
   * S2
   */
  #open(socket: Socket): () => void {
    const { clock, openMs } = this.#options;
    this.#opening.add(socket);
    socket.on("error", () => undefined); // It closes then, too.
    const late = () => {
      socket.destroy(new NotOpened(`it did not open within ${openMs} ms`));
    };
    const cancel = clock.after(openMs, late);
    return () => {
      cancel();
      this.#opening.delete(socket);
    };
  }
}

/** The address of the other end. */
function nameOf({ remoteAddress, remotePort }: Socket): string {
  return remoteAddress === undefined ? "this machine" : `${remoteAddress}:${remotePort}`;
}

/** Resolves to the failure, if a socket cannot be connected. */
function connected(socket: Socket): Promise<Error | undefined> {
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(undefined));
    socket.once("close", () => resolve(socket.errored ?? new Error("this host closes its links")));
  });
}

/** The id of this boot of this machine: processes with the same one see the same sockets. */
function machineId(): string | undefined {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return undefined;
  }
}
