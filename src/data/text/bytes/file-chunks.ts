// The bytes of a file on a disk, piece by piece, in memory that is used again: new memory for each
// piece would have to be cleared, and collected. The next piece is read while the last one is used.

import { open } from "node:fs/promises";

/** Bytes of a piece, but of the last one. */
export const chunkBytes = 0x4_0000;

/** Two pieces are in use, as a line may begin in the one before; one is being read. */
const pieces = 3;

/**
 * The pieces of a file, each valid until the next but one is asked for. `onRead` takes the number
 * of bytes of each. @throws Error as node:fs
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
      coming.catch(() => {}); // It is thrown where it is awaited.
      onRead(chunk.length);
      yield chunk;
    }
  } finally {
    await coming.catch(() => {});
    await file.close();
  }
}
