// Wait notes: the current long wait of each thread of a host, in shared memory, so that other
// threads can see which participant waits for which. A thread notes only long waits: a normal step
// writes no note.
//
//   words 0, 1     the awaited participant + 2 (0: no wait); bytes of the text
//   bytes 8..15    start of the wait, in milliseconds since 1970, float64
//   bytes 16..     name of the awaited event, UTF-8

const slotBytes = 160;
const textFirst = 16;

/** A long wait that a thread has noted. */
export interface NotedWait {
  /** The participant that waits. */
  readonly participant: number;
  /** The awaited participant, or `nobody`. */
  readonly of: number;
  readonly what: string;
  /** Milliseconds since 1970. */
  readonly sinceMs: number;
}

/** The note of one participant, written by its own thread only. */
export interface WaitNote {
  write(wait: Omit<NotedWait, "participant">): void;
  clear(): void;
}

/** Bytes for the notes of this many participants. */
export function waitNotesBytes(participants: number): number {
  return participants * slotBytes;
}

export function openWaitNote(memory: ArrayBufferLike, participant: number): WaitNote {
  const { words, since, text } = slotOf(memory, participant);
  return {
    write({ of, what, sinceMs }) {
      const bytes = new TextEncoder().encode(what).subarray(0, text.length);
      text.set(bytes);
      since[0] = sinceMs;
      words[1] = bytes.length;
      Atomics.store(words, 0, of + 2);
    },
    clear() {
      Atomics.store(words, 0, 0);
    },
  };
}

/** All waits that are noted at present. */
export function readWaitNotes(memory: ArrayBufferLike): NotedWait[] {
  const participants = memory.byteLength / slotBytes;
  return Array.from({ length: participants }, (_, i) => i).flatMap((participant) => {
    const { words, since, text } = slotOf(memory, participant);
    const whom = Atomics.load(words, 0);
    if (whom === 0) return [];
    const what = new TextDecoder().decode(text.slice(0, words[1]));
    return { participant, of: whom - 2, what, sinceMs: since[0] ?? 0 };
  });
}

function slotOf(memory: ArrayBufferLike, participant: number) {
  const first = participant * slotBytes;
  return {
    words: new Int32Array(memory, first, 2),
    since: new Float64Array(memory, first + 8, 1),
    text: new Uint8Array(memory, first + textFirst, slotBytes - textFirst),
  };
}
