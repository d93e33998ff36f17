// The bytes a broker sends to one client: gathered while the broker works, written at the end of
// its event-loop turn.
//
// Invariant
//   O1. At most `pendingBytesMax` bytes wait, in the outbox and in the socket together. If more are
//       added, `add` returns false, and the caller disconnects the client.

import type { Socket } from "node:net";

/** Pieces up to this size are copied together: a write costs more than the copy. */
const copyBytesMax = 16 * 1024;

/** The bytes that wait for one socket. */
export class Outbox {
  readonly #socket: Socket;
  readonly #pendingBytesMax: number;
  #pieces: Buffer[] = [];
  #queuedBytes = 0;
  #isDue = false;

  constructor(socket: Socket, pendingBytesMax: number) {
    this.#socket = socket;
    this.#pendingBytesMax = pendingBytesMax;
  }

  /** Bytes that wait, here and in the socket. */
  get pendingBytes(): number {
    return this.#queuedBytes + this.#socket.writableLength;
  }

  /** Adds pieces to be written soon. Returns false and adds nothing if they were too many bytes. */
  add(...pieces: readonly Buffer[]): boolean {
    let bytes = 0;
    for (const piece of pieces) bytes += piece.length;
    if (this.pendingBytes + bytes > this.#pendingBytesMax) return false; // O1
    this.#pieces.push(...pieces);
    this.#queuedBytes += bytes;
    if (!this.#isDue) {
      this.#isDue = true;
      queueMicrotask(() => this.flush());
    }
    return true;
  }

  /** Writes the gathered pieces to the socket. */
  flush(): void {
    this.#isDue = false;
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#queuedBytes = 0;
    if (pieces.length === 0 || !this.#socket.writable) return;
    this.#socket.cork();
    let small: Buffer[] = [];
    for (const piece of pieces) {
      if (piece.length <= copyBytesMax) {
        small.push(piece);
        continue;
      }
      this.#write(small);
      small = [];
      this.#socket.write(piece);
    }
    this.#write(small);
    this.#socket.uncork();
  }

  #write(pieces: Buffer[]): void {
    if (pieces.length > 0) this.#socket.write(Buffer.concat(pieces));
  }
}
