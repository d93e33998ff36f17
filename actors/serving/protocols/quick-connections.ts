// Connections whose requests are in the most usual form, read and answered without the objects that
// node's HTTP server makes for each request: that is a third of the time of a small prediction. A
// request in any other form, or a large one, has its connection handed to that server, for good.
//
//   socket ──▶ request-heads.ts ──known form──▶ answer ──▶ the next request
//                     └──any other──▶ node's HTTP server, with all bytes that are not answered
//
// Invariants
//   C1. Requests of a connection are answered one by one, in their order, each in full.
//   C2. A connection that waits for the rest of a request, or for its first one, is refused after
//       `requestMs`; one that waits for its next ends after `keepAliveMs`.
//   C3. No more bytes wait than `bytesMax` and what one read brings.

import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Cancel, Clock } from "../../../src/ports/clock.ts";
import { guarded } from "../../../src/wire/http/answering.ts";
import type { HttpAnswer, HttpRequest } from "./http-routes.ts";
import { headBytesMax, RequestHeads } from "./request-heads.ts";

export interface QuickInput {
  readonly requestMs: number;
  readonly keepAliveMs: number;
  /** How often connections are looked at. */
  readonly checkMs: number;
  readonly clock: Clock;
  /** Answers a request that came in whole; never rejects. */
  readonly answer: (request: HttpRequest, body: Uint8Array) => Promise<HttpAnswer>;
  /** Whether each answer is the last of its connection. */
  readonly isLeaving: () => boolean;
  /** An answer was written, of which bytes may wait for a caller that does not read. */
  readonly onWritten: (socket: Socket) => void;
  /** Goes on with a connection. */
  readonly handOver: (socket: Socket) => void;
  /** Refuses what is too slow, or breaks off. */
  readonly refuse: (error: { readonly code?: string }, socket: Socket) => void;
}

/** Bodies beyond this are not small: how they are read hardly counts. */
const bytesMax = 64 * 1024;
const headEnd = Buffer.from("\r\n\r\n");

/** As described above. */
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

  /** Ends those that wait for their next request. */
  endIdle(): void {
    for (const one of this.#all) one.endIdle();
  }

  endAll(): void {
    for (const one of this.#all) one.destroy();
  }

  /** C2 */
  #check(): void {
    const nowMs = this.#input.clock.now();
    for (const one of this.#all) one.check(nowMs);
    const { checkMs, clock } = this.#input;
    this.#cancel = this.#all.size === 0 ? undefined : clock.after(checkMs, () => this.#check());
  }

  /** The date of answers, made anew each second. */
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
  /** What was read and is not answered. */
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  /** Bytes that the next request has; 0: its head was not read. */
  #wanted = 0;
  /** Since when it waits, and for how long it may. */
  #sinceMs: number;
  #waitMs: number;
  #isAnswering = false;
  /** Whether the other side sends nothing more. */
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
    socket.on("error", ignore); // It closes, too.
  }

  endIdle(): void {
    if (this.#isAnswering || this.#unreadBytes > 0) return;
    // Not at once: a request that is on its way would be answered by a reset.
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

  /** What the connection's own bytes make the code throw ends the connection alone. */
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

  /** Answers the next request, if it is there in full. */
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
    else socket.once("drain", this.#guard(this.#goOn)); // C3: who does not read is not read from.
  };

  /** After an answer. */
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

  /** The other side has ended: between two requests, or within one. */
  #end(): void {
    if (this.#unreadBytes === 0) this.#socket.end();
    else this.#refuse();
  }

  /** C2: the connection ends with the refusal, whatever the other side does. */
  #refuse(code?: string): void {
    this.#isAnswering = true;
    this.#input.refuse(code === undefined ? {} : { code }, this.#socket);
    this.#socket.destroySoon();
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    if (this.#isHalfClosed) {
      this.#refuse(); // Nobody can read on from a stream that has ended.
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
