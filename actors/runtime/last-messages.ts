// The last messages that an actor heard, for who looks into it. Bounded: so many, and contents of
// small frames alone; of a larger one its size is known. Noting one writes into a ring; nothing is
// made of it until somebody asks.

/** Messages of one actor that are kept. */
const keptMax = 8;
/** Contents of larger frames are not kept: nothing that a person could read is in them. */
const bytesMax = 256;

/** A message as it was heard. */
export interface KeptMessage {
  readonly type: string;
  /** `coordinator:0` */
  readonly from: string;
  readonly atMs: number;
  readonly bytes: number;
  /** Undefined: its frame was too large. */
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

  /** The newest first. */
  all(): readonly KeptMessage[] {
    const oldest = this.#ring.length < keptMax ? 0 : this.#next;
    return [...this.#ring.slice(oldest), ...this.#ring.slice(0, oldest)].reverse();
  }
}
