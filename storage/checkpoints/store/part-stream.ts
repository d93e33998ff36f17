// The protocol by which a device streams the parts of a cut to its writer thread, one after the
// other, through a pipe (src/exchange/byte-pipe.ts).
//
//   an item:  kind u32 | bytes u32 | bytes
//   a cut:    part (JSON: its cut, name, whether it is whole) | bytes ... | leaves (JSON) |
//             the next part ... | cut (JSON: its number)

import type { PipeReader, PipeWriter } from "../../../src/exchange/byte-pipe.ts";

export type StreamItem =
  | {
      readonly kind: "part";
      readonly cut: number;
      readonly name: string;
      /** False: the part is an increment. */
      readonly isWhole: boolean;
      /** The host to which the parts of the cut are handed over; left out: none. */
      readonly to?: number | undefined;
    }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "leaves"; readonly leaves: readonly string[] }
  /** All parts of the cut were sent. */
  | { readonly kind: "cut"; readonly cut: number };

const kinds = ["part", "bytes", "leaves", "cut"] as const;

/** Resolves when the item is in the pipe. The caller keeps its buffer. */
export async function sendItem(pipe: PipeWriter, item: StreamItem): Promise<void> {
  const bytes = item.kind === "bytes" ? item.bytes : new TextEncoder().encode(JSON.stringify(item));
  const head = Uint32Array.of(kinds.indexOf(item.kind), bytes.length);
  await pipe.write(new Uint8Array(head.buffer));
  await pipe.write(bytes);
}

/** The next item, in newly allocated memory. */
export async function receiveItem(pipe: PipeReader): Promise<StreamItem> {
  const head = new Uint32Array(2);
  await pipe.read(new Uint8Array(head.buffer));
  const [kind = 0, length = 0] = head;
  const bytes = new Uint8Array(length);
  await pipe.read(bytes);
  if (kinds[kind] === "bytes") return { kind: "bytes", bytes };
  return JSON.parse(new TextDecoder().decode(bytes)) as StreamItem;
}
