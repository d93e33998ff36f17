// Reads a local file in chunks, into reused memory: new memory per chunk would have to be cleared
// and garbage-collected. The next chunk is read while the last one is in use.

import { open } from "node:fs/promises";

/** Bytes of every chunk except the last. */
export const chunkBytes = 0x4_0000;

/**
 * Number of buffers: two chunks are in use, because a line may begin in the previous chunk, and one
 * is being read.
 */
const pieces = 3;

/**
 * The chunks of a file. A chunk is valid until the second chunk after it is requested. `onRead`
 * receives the size of each chunk. @throws Error as node:fs
 */
export async function* fileChunks(
  path: string,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const file = await open(path, "r");
  const memory = Array.from({ length: pieces }, () => Buffer.allocUnsafeSlow(chunkBytes));
  const read = async (turn: number) => {
    const bytes = memory[turn % pieces] ?? Buffer.alloc(chunkBytes);
    const { bytesRead } = await file.read(bytes, 0, chunkBytes, null);
    return bytes.subarray(0, bytesRead);
  };
  let coming = read(0);
  try {
    for (let turn = 1; ; turn++) {
      const chunk = await coming;
      if (chunk.length === 0) return;
      coming = read(turn);
      coming.catch(() => {}); // The error is thrown where it is awaited.
      onRead(chunk.length);
      yield chunk;
    }
  } finally {
    await coming.catch(() => {});
    await file.close();
  }
}
