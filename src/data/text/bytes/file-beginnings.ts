// What the first bytes of a file say: a byte order mark of UTF-8, which is no text, or that the
// file is no text that is read here. Without this check it would be taken for text of other bytes.

/** The bytes without a byte order mark of UTF-8. */
export function withoutMark<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  const [first, second, third] = bytes;
  const hasMark = first === 0xef && second === 0xbb && third === 0xbf;
  return hasMark ? (bytes.subarray(3) as Bytes) : bytes;
}

/** First bytes of formats that a file of text is mistaken for. */
const magics: readonly [string, readonly number[]][] = [
  ["gzip", [0x1f, 0x8b]],
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]],
  ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["lz4", [0x04, 0x22, 0x4d, 0x18]],
  ["zip", [0x50, 0x4b, 3, 4]],
];

/** Why a file that begins so is no plain text of one byte per character; undefined: it may be. */
export function noTextBecause(bytes: Uint8Array): string | undefined {
  const packed = magics.find(([, magic]) => magic.every((one, at) => bytes[at] === one));
  if (packed !== undefined) {
    const [name] = packed;
    return `it is packed with ${name}, and text is read plain or packed with gzip: pack it so`;
  }
  const [a = 1, b = 1, c = 1, d = 1] = bytes;
  const hasMark = (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
  const isWide = hasMark || (a === 0 && c === 0) || (b === 0 && d === 0);
  return isWide ? "it is text in UTF-16 or UTF-32: convert it to UTF-8" : undefined;
}
