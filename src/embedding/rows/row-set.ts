// A set of a shard's rows: a bitmap in pages. A page is allocated when its first row is added, so
// that an empty set for 10⁹ rows costs nothing.

const pageBits = 15;
const pageRows = 1 << pageBits;
const pageWords = pageRows / 32;
/** An encoded page: its index, little-endian, then its bits in the machine's byte order. */
const pageBytes = 4 + pageRows / 8;

export interface RowSet {
  /** Number of rows in the set. */
  readonly size: number;
  has(row: number): boolean;
  add(row: number): void;
  delete(row: number): void;
  /** Fills `out` with the set's rows from `from` on, ascending. Returns their number. */
  list(from: number, out: Int32Array): number;
  /** Encodes the set, for `createRowSet`. */
  encode(): Uint8Array;
}

/** Creates an empty set, or decodes a set. */
export function createRowSet(encoded?: Uint8Array): RowSet {
  const pages: (Int32Array | undefined)[] = [];
  let size = encoded === undefined ? 0 : decode(encoded, pages);
  return {
    get size() {
      return size;
    },
    has(row) {
      const word = pages[row >> pageBits]?.[(row & (pageRows - 1)) >> 5] ?? 0;
      return ((word >>> (row & 31)) & 1) === 1;
    },
    add(row) {
      const page = pages[row >> pageBits] ?? new Int32Array(pageWords);
      pages[row >> pageBits] = page;
      const at = (row & (pageRows - 1)) >> 5;
      const word = page[at] ?? 0;
      const bit = 1 << (row & 31);
      if ((word & bit) !== 0) return;
      page[at] = word | bit;
      size++;
    },
    delete(row) {
      const page = pages[row >> pageBits];
      const at = (row & (pageRows - 1)) >> 5;
      const word = page?.[at] ?? 0;
      const bit = 1 << (row & 31);
      if (page === undefined || (word & bit) === 0) return;
      page[at] = word ^ bit;
      size--;
    },
    list: (from, out) => list(pages, from, out),
    encode: () => encode(pages),
  };
}

function list(pages: readonly (Int32Array | undefined)[], from: number, out: Int32Array): number {
  let count = 0;
  for (let index = from >> pageBits; index < pages.length; index++) {
    const page = pages[index];
    if (page === undefined) continue;
    const first = index * pageRows;
    for (let at = Math.max(0, from - first) >> 5; at < pageWords; at++) {
      let word = page[at] ?? 0;
      const begin = first + 32 * at;
      if (begin < from) word &= -1 << (from - begin);
      for (; word !== 0; word &= word - 1) {
        if (count === out.length) return count;
        out[count++] = begin + 31 - Math.clz32(word & -word);
      }
    }
  }
  return count;
}

function encode(pages: readonly (Int32Array | undefined)[]): Uint8Array {
  const bytes = new Uint8Array(pages.filter((page) => page !== undefined).length * pageBytes);
  const indexes = new DataView(bytes.buffer);
  let at = 0;
  for (const [index, page] of pages.entries()) {
    if (page === undefined) continue;
    indexes.setUint32(at, index, true);
    bytes.set(new Uint8Array(page.buffer), at + 4);
    at += pageBytes;
  }
  return bytes;
}

function decode(bytes: Uint8Array, pages: (Int32Array | undefined)[]): number {
  const indexes = new DataView(bytes.buffer, bytes.byteOffset);
  let size = 0;
  for (let at = 0; at < bytes.length; at += pageBytes) {
    const page = new Int32Array(bytes.slice(at + 4, at + pageBytes).buffer);
    pages[indexes.getUint32(at, true)] = page;
    for (let word of page) for (; word !== 0; word &= word - 1) size++;
  }
  return size;
}
