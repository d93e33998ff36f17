// The last messages that an actor received, for inspection. Bounded: `keptMax` messages, and bodies
// of small frames only; of a larger frame only the size is kept. Noting a message writes one ring
// entry; nothing is formatted before a report is requested.

/** Messages of one actor that are kept. */
const keptMax = 8;
/** Bodies of larger frames are not kept: they are not readable for a person. */
const bytesMax = 256;

/** A received message. */
export interface KeptMessage {
  readonly type: string;
  /** `coordinator:0` */
  readonly from: string;
  readonly atMs: number;
  readonly bytes: number;
  /** The body; undefined: its frame was larger than `bytesMax`. */
  readonly body?: unknown;
}

export class LastMessages {
  readonly #ring: KeptMessage[] = [];
  #next = 0;

  note(
    message: { readonly type: string; readonly from: string; readonly body: unknown },
    bytes: number,
    atMs: number,
  ): void {
    const { type, from } = message;
    const body = bytes > bytesMax ? undefined : message.body;
    this.#ring[this.#next] = { type, from, atMs, bytes, body };
    this.#next = (this.#next + 1) % keptMax;
  }

  /** The kept messages, newest first. */
  all(): readonly KeptMessage[] {
    const oldest = this.#ring.length < keptMax ? 0 : this.#next;
    return [...this.#ring.slice(oldest), ...this.#ring.slice(0, oldest)].reverse();
  }
}
