// The bytes of text files: reads them in chunks, removes a byte order mark, and detects compressed
// files and unsupported encodings, which would otherwise be read as garbled text.

import { open } from "node:fs/promises";

/** Removes the byte order mark of UTF-8. */
export function withoutMark<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  const [first, second, third] = bytes;
  const hasMark = first === 0xef && second === 0xbb && third === 0xbf;
  return hasMark ? (bytes.subarray(3) as Bytes) : bytes;
}

/** Magic bytes of compressed formats. */
const magics: readonly [string, readonly number[]][] = [
  ["gzip", [0x1f, 0x8b]],
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]],
  ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["lz4", [0x04, 0x22, 0x4d, 0x18]],
  ["zip", [0x50, 0x4b, 3, 4]],
];

/** Most bytes that `packingOf` inspects. */
export const magicBytes = 6;

/** The compression of a file that begins with these bytes, if it is a known one. */
export function packingOf(bytes: Uint8Array): string | undefined {
  return magics.find(([, magic]) => magic.every((one, at) => bytes[at] === one))?.[0];
}

/**
 * The reason why a file that begins with these bytes is not plain text in UTF-8, or in UTF-16 with
 * a byte order mark; undefined if it may be. `advice`: advice for a compressed file.
 */
export function noTextBecause(
  bytes: Uint8Array,
  advice = "text is read plain or packed with gzip or zstd: pack it so",
): string | undefined {
  const packing = packingOf(bytes);
  if (packing !== undefined) return `it is packed with ${packing}, and ${advice}`;
  if (isMarkedUtf16(bytes)) return undefined;
  const [a = 1, b = 1, c = 1, d = 1] = bytes;
  const isWide = (a === 0xff && b === 0xfe) || (a === 0 && c === 0) || (b === 0 && d === 0);
  return isWide
    ? "it is text in UTF-32, or in UTF-16 without a byte order mark: convert it to UTF-8"
    : undefined;
}

/** Whether a text begins with the byte order mark of UTF-16, not UTF-32. */
function isMarkedUtf16([a, b, c, d]: Uint8Array): boolean {
  return (a === 0xfe && b === 0xff) || (a === 0xff && b === 0xfe && (c !== 0 || d !== 0));
}

/** The decoder for a UTF-16 text with this byte order mark. It preserves the mark. */
function utf16Decoder([first]: Uint8Array) {
  return new TextDecoder(first === 0xfe ? "utf-16be" : "utf-16le", { ignoreBOM: true });
}

/** Converts UTF-16 text to UTF-8, including its mark; other text stays unchanged. */
export function utf8Of(bytes: Buffer): Buffer {
  return isMarkedUtf16(bytes) ? Buffer.from(utf16Decoder(bytes).decode(bytes)) : bytes;
}

/**
 * The pieces of a text file, converted to UTF-8. Pieces may end within a character.
 * @throws Error if the file is neither UTF-8 nor UTF-16 with a byte order mark (`noTextBecause`)
 */
export async function* utf8Pieces(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let isBegun = false;
  let wide: ReturnType<typeof utf16Decoder> | undefined;
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    if (!isBegun) {
      const fault = noTextBecause(piece);
      if (fault !== undefined) throw new Error(fault);
      if (isMarkedUtf16(piece)) wide = utf16Decoder(piece);
      isBegun = true;
    }
    yield wide === undefined ? piece : Buffer.from(wide.decode(piece, { stream: true }));
  }
  const rest = wide?.decode() ?? ""; // Half a character, if the file was truncated.
  if (rest.length > 0) yield Buffer.from(rest);
}

/** Bytes of every chunk of a file except the last. */
export const chunkBytes = 0x4_0000;

/**
 * Number of buffers: two chunks are in use, because a line may begin in the previous chunk, and one
 * is being read.
 */
const pieces = 3;

/**
 * The chunks of a file, in reused memory: new memory per chunk would have to be cleared and
 * garbage-collected. The next chunk is read while the last one is in use. A chunk is valid until
 * the second chunk after it is requested. `onRead` receives the size of each chunk. @throws Error
 * as node:fs
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
