// What a broker has to say to one client: gathered while it works, written at the end of its turn.
//
// Invariant
//   O1. No more than `pendingBytesMax` bytes wait, in the outbox and in the socket together:
//       whoever would add more hears so, and cuts the client.

import type { Socket } from "node:net";

/** A piece up to this size is copied next to its neighbours: a write costs more than the copy. */
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

  /** Bytes that wait. */
  get pendingBytes(): number {
    return this.#queuedBytes + this.#socket.writableLength;
  }

  /** Adds pieces, to be written soon; false, and nothing added, if that were too many bytes. */
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

  /** Hands to the socket what waits here. */
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
