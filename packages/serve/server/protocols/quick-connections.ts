// The fast path for connections with requests in the most common form: it avoids the objects that
// node's HTTP server makes for each request, a third of the time of a small prediction. On any
// other or large request, the connection is handed over to node's server for good.
//
//   socket ──▶ request-heads.ts ──known form──▶ answer ──▶ the next request
//                     └──any other──▶ node's HTTP server, with all bytes of unanswered requests
//
// Invariants
//   C1. Requests of a connection are answered one at a time, in order, each in full.
//   C2. A connection that does not complete a request within `requestMs` is refused; an idle
//       connection ends after `keepAliveMs`.
//   C3. At most `bytesMax` bytes plus one read are buffered per connection.

import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type Cancel, type Clock, guarded } from "../../../../internal.ts";
import type { HttpAnswer, HttpRequest } from "./http-routes.ts";
import { headBytesMax, RequestHeads } from "./request-heads.ts";

export interface QuickInput {
  readonly requestMs: number;
  readonly keepAliveMs: number;
  /** How often connections are checked against the time limits. */
  readonly checkMs: number;
  readonly clock: Clock;
  /** Answers a complete request; never rejects. */
  readonly answer: (request: HttpRequest, body: Uint8Array) => Promise<HttpAnswer>;
  /** Whether each answer must close its connection. */
  readonly isLeaving: () => boolean;
  /** Called after an answer was written; part of it may wait for a caller that does not read. */
  readonly onWritten: (socket: Socket) => void;
  /** Takes over a connection. */
  readonly handOver: (socket: Socket) => void;
  /** Refuses a connection that is too slow, or ends within a request. */
  readonly refuse: (error: { readonly code?: string }, socket: Socket) => void;
}

/** Most bytes of a body on the fast path: for larger ones, the gain hardly counts. */
const bytesMax = 64 * 1024;
const headEnd = Buffer.from("\r\n\r\n");

/** The fast-path connections of a server. */
export class QuickConnections {
  readonly #input: QuickInput;
  readonly #heads = new RequestHeads();
  readonly #all = new Set<QuickConnection>();
  #cancel: Cancel | undefined;
  #date = "";
  #dateMs = Number.NEGATIVE_INFINITY;

  constructor(input: QuickInput) {
    this.#input = input;
  }

  take(socket: Socket): void {
    const { clock } = this.#input;
    const one = new QuickConnection(socket, this.#input, {
      head: (text) => this.#heads.read(text),
      date: () => this.#dateNow(),
      onEnd: () => this.#all.delete(one),
    });
    this.#all.add(one);
    this.#cancel ??= clock.after(this.#input.checkMs, () => this.#check());
  }

  /** Ends idle connections. */
  endIdle(): void {
    for (const one of this.#all) one.endIdle();
  }

  endAll(): void {
    for (const one of this.#all) one.destroy();
  }

  /** Ends the connections that have exceeded their time limits. C2 */
  #check(): void {
    const nowMs = this.#input.clock.now();
    for (const one of this.#all) one.check(nowMs);
    const { checkMs, clock } = this.#input;
    this.#cancel = this.#all.size === 0 ? undefined : clock.after(checkMs, () => this.#check());
  }

  /** The date header of answers, cached for a second. */
  #dateNow(): string {
    const nowMs = this.#input.clock.now();
    if (nowMs - this.#dateMs >= 1000) {
      this.#dateMs = nowMs;
      this.#date = this.#input.clock.date().toUTCString();
    }
    return this.#date;
  }
}

interface Shared {
  readonly head: RequestHeads["read"];
  readonly date: () => string;
  readonly onEnd: () => void;
}

class QuickConnection {
  readonly #socket: Socket;
  readonly #input: QuickInput;
  readonly #shared: Shared;
  /** Bytes read, but not answered yet. */
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  /** Bytes of the next request; 0: its head is not parsed yet. */
  #wanted = 0;
  /** Start of the current wait, and its limit. */
  #sinceMs: number;
  #waitMs: number;
  #isAnswering = false;
  /** Whether the other side has closed its sending direction. */
  #isHalfClosed = false;

  constructor(socket: Socket, input: QuickInput, shared: Shared) {
    this.#socket = socket;
    this.#input = input;
    this.#shared = shared;
    this.#sinceMs = input.clock.now();
    this.#waitMs = input.requestMs;
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("close", this.#onClose);
    socket.on("error", ignore); // "close" follows.
  }

  endIdle(): void {
    if (this.#isAnswering || this.#unreadBytes > 0) return;
    // Not destroyed at once: a request that is on its way would be answered by a reset.
    this.#isAnswering = true;
    this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  check(nowMs: number): void {
    if (this.#isAnswering || nowMs - this.#sinceMs < this.#waitMs) return;
    if (this.#waitMs === this.#input.requestMs) this.#refuse("ERR_HTTP_REQUEST_TIMEOUT");
    else this.#socket.destroy();
  }

  /** An exception caused by the connection's own bytes ends only this connection. */
  readonly #guard = <Given extends readonly unknown[]>(listen: (...given: Given) => unknown) =>
    guarded(listen, () => this.#socket.destroy());

  readonly #onData = this.#guard((chunk: Buffer): void => {
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    if (!this.#isAnswering) this.#next();
    else if (this.#unreadBytes > bytesMax) this.#socket.pause(); // C3
  });

  readonly #onEnd = this.#guard((): void => {
    this.#isHalfClosed = true;
    if (!this.#isAnswering) this.#end();
  });

  readonly #onClose = (): void => this.#shared.onEnd();

  /** Answers the next request if it has arrived completely. */
  #next(): void {
    if (this.#unreadBytes < this.#wanted) return;
    const [first] = this.#unread;
    const bytes =
      first !== undefined && this.#unread.length === 1 ? first : Buffer.concat(this.#unread);
    const end = bytes.subarray(0, headBytesMax).indexOf(headEnd);
    const head = end < 0 ? undefined : this.#shared.head(bytes.toString("latin1", 0, end));
    if (head === undefined || head.bodyBytes > bytesMax) {
      this.#handOver(bytes);
      return;
    }
    const from = end + headEnd.length;
    const whole = from + head.bodyBytes;
    if (bytes.length < whole) {
      this.#keep(bytes);
      if (this.#wanted === 0) this.#wait(this.#input.requestMs);
      this.#wanted = whole;
      if (this.#isHalfClosed) this.#end();
      return;
    }
    this.#wanted = 0;
    this.#keep(bytes.subarray(whole));
    this.#isAnswering = true;
    const { url, headers } = head;
    const request: HttpRequest = {
      method: "POST",
      url,
      header: (name) => headers.get(name),
      isGone: () => this.#socket.destroyed,
    };
    this.#answer(request, bytes.subarray(from, whole));
  }

  readonly #answer = this.#guard(async (request: HttpRequest, body: Uint8Array) => {
    this.#write(await this.#input.answer(request, body));
  });

  readonly #write = ({ status, type, headers, body }: HttpAnswer): void => {
    const socket = this.#socket;
    if (socket.destroyed) return;
    const isLast = this.#input.isLeaving() || (this.#isHalfClosed && this.#unreadBytes === 0);
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: ${type}\r\n`;
    for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
    head += `content-length: ${bytes}\r\nDate: ${this.#shared.date()}\r\n`;
    if (isLast) head += "connection: close\r\n\r\n";
    else {
      const seconds = Math.floor(this.#input.keepAliveMs / 1000);
      head += `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n`;
    }
    let isFlushed: boolean;
    if (typeof body === "string") {
      const isAscii = bytes === body.length;
      isFlushed = socket.write(head + body, isAscii ? "latin1" : "utf8");
    } else {
      socket.cork();
      socket.write(head, "latin1");
      isFlushed = socket.write(body);
      socket.uncork();
    }
    if (!isFlushed) this.#input.onWritten(socket);
    if (isLast) socket.destroySoon();
    else if (isFlushed) this.#goOn();
    else socket.once("drain", this.#guard(this.#goOn)); // C3: pauses for slow callers.
  };

  /** Continues after an answer. */
  readonly #goOn = (): void => {
    this.#isAnswering = false;
    this.#wait(this.#input.keepAliveMs);
    if (this.#socket.isPaused()) this.#socket.resume();
    if (this.#unreadBytes > 0) this.#next();
    else if (this.#isHalfClosed) this.#end();
  };

  #wait(ms: number): void {
    this.#sinceMs = this.#input.clock.now();
    this.#waitMs = ms;
  }

  #keep(bytes: Buffer): void {
    this.#unread = bytes.length === 0 ? [] : [bytes];
    this.#unreadBytes = bytes.length;
  }

  /** Handles the end of the other side: between two requests, or within one. */
  #end(): void {
    if (this.#unreadBytes === 0) this.#socket.end();
    else this.#refuse();
  }

  /** Refuses the request and ends the connection, whatever the other side does. C2 */
  #refuse(code?: string): void {
    this.#isAnswering = true;
    this.#input.refuse(code === undefined ? {} : { code }, this.#socket);
    this.#socket.destroySoon();
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    if (this.#isHalfClosed) {
      this.#refuse(); // Node cannot read on from an ended stream.
      return;
    }
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("close", this.#onClose);
    socket.off("error", ignore);
    this.#shared.onEnd();
    socket.pause();
    socket.unshift(bytes);
    this.#input.handOver(socket);
    process.nextTick(() => socket.resume());
  }
}

function ignore(): void {}
