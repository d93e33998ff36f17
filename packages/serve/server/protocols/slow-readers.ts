// Cuts connections with unread answers: a caller that sends requests but reads no answer would hold
// its connection and the answer's memory for ever. Node has no time limit for writing.
//
// Invariants
//   W1. A connection is cut if its waiting bytes have not decreased for `stalledMs`.

import type { Socket } from "node:net";
import type { Cancel, Clock } from "../../../../internal.ts";

/** The part of a socket that is checked. */
export type Written = Pick<Socket, "writableLength" | "destroyed" | "destroy">;

interface Watched {
  /** Waiting bytes at their last decrease, and its time. */
  bytes: number;
  sinceMs: number;
}

export class SlowReaders {
  readonly #stalledMs: number;
  readonly #checkMs: number;
  readonly #clock: Clock;
  readonly #watched = new Map<Written, Watched>();
  #cancel: Cancel | undefined;

  constructor(input: {
    readonly stalledMs: number;
    readonly checkMs: number;
    readonly clock: Clock;
  }) {
    this.#stalledMs = input.stalledMs;
    this.#checkMs = input.checkMs;
    this.#clock = input.clock;
  }

  /** Connections with unread answers. */
  get count(): number {
    return this.#watched.size;
  }

  /** Watches a connection after an answer was written, if bytes of it are waiting. */
  watch(socket: Written): void {
    if (socket.writableLength === 0 || socket.destroyed || this.#watched.has(socket)) return;
    this.#watched.set(socket, { bytes: socket.writableLength, sinceMs: this.#clock.now() });
    this.#cancel ??= this.#clock.after(this.#checkMs, () => this.#check());
  }

  close(): void {
    this.#cancel?.();
    this.#watched.clear();
  }

  /** Cuts the connections that have stalled. W1 */
  #check(): void {
    const nowMs = this.#clock.now();
    for (const [socket, watched] of this.#watched) {
      const { writableLength, destroyed } = socket;
      if (writableLength === 0 || destroyed) this.#watched.delete(socket);
      else if (writableLength < watched.bytes) {
        watched.bytes = writableLength;
        watched.sinceMs = nowMs;
      } else if (nowMs - watched.sinceMs >= this.#stalledMs) {
        this.#watched.delete(socket);
        socket.destroy();
      }
    }
    const isOver = this.#watched.size === 0;
    this.#cancel = isOver ? undefined : this.#clock.after(this.#checkMs, () => this.#check());
  }
}
