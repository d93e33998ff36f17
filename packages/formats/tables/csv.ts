// Rows as CSV: a header, then a line for each row. Numbers have at most nine digits, which suffice
// to read back the same float32.
//
//   id,v0,v1,…,s0,s1,…        s: optimizer state, if the file has it

import { type DiskFile, decimal, readLines, splitLine } from "../../../internal.ts";
import {
  type FileRows,
  type FileShape,
  fileRowsMax,
  type RowFile,
  type RowFileWriter,
  type RowFormat,
  unusable,
} from "./row-file.ts";

/** Rows as CSV, the format of `.csv`. */
export const csvTable: RowFormat = { isCounted: false, open: openWriter, read: openReader };

function openWriter(file: DiskFile, { dim, width }: FileShape): RowFileWriter {
  const append = appendTo(file);
  append(`${columnsOf({ dim, width }).join(",")}\n`);
  return {
    write({ ids, vectors, state }) {
      let text = "";
      for (const [i, id] of ids.entries()) {
        text += String(id);
        for (const value of vectors.subarray(i * dim, (i + 1) * dim)) text += `,${show(value)}`;
        const rowState = state?.subarray(i * width, (i + 1) * width) ?? [];
        for (const value of rowState) text += `,${show(value)}`;
        text += "\n";
      }
      append(text);
    },
    finish() {},
  };
}

/** Returns a function that writes text behind the text before it. */
export function appendTo(file: DiskFile): (text: string) => void {
  let end = 0;
  return (text) => {
    const bytes = Buffer.from(text);
    file.write(bytes, end);
    end += bytes.length;
  };
}

/** A text as a field of CSV: in quotes where it needs them. */
export function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function columnsOf({ dim, width }: FileShape): string[] {
  const numbered = (letter: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${letter}${i}`);
  return ["id", ...numbered("v", dim), ...numbered("s", width)];
}

/** A float32 in decimals: nine digits distinguish it from its neighbours. */
function show(value: number): string {
  return Object.is(value, -0) ? "-0" : String(Number(value.toPrecision(9)));
}

async function openReader(path: string): Promise<RowFile> {
  const shape = await readHeader(path);
  return {
    shape,
    chunks: () => readRows(path, shape),
    placeOf: (at) => `line ${at + 2} of ${path}`,
    close() {},
  };
}

async function readHeader(path: string): Promise<FileShape> {
  for await (const { lines } of readLines(path)) {
    const names = fieldsOf(lines[0]);
    const dim = names.filter((name) => /^v\d+$/.test(name)).length;
    const width = names.filter((name) => /^s\d+$/.test(name)).length;
    if (dim > 0 && names.join() === columnsOf({ dim, width }).join()) return { dim, width };
    const found = names.slice(0, 4).join(",");
    throw unusable(path, `Expected line 1 of ${path} to be \`id,v0,v1,…\`, got \`${found}\``);
  }
  throw unusable(path, `Expected line 1 of ${path} to be \`id,v0,v1,…\`, but the file is empty`);
}

async function* readRows(path: string, shape: FileShape): AsyncGenerator<FileRows> {
  const { dim, width } = shape;
  const names = columnsOf(shape);
  for await (const { firstLine, lines } of readLines(path)) {
    for (let first = firstLine === 1 ? 1 : 0; first < lines.length; first += fileRowsMax) {
      const some = lines.slice(first, first + fileRowsMax);
      const ids = new BigInt64Array(some.length);
      const vectors = new Float32Array(some.length * dim);
      const state = width === 0 ? undefined : new Float32Array(some.length * width);
      for (const [i, line] of some.entries()) {
        const place = `line ${firstLine + first + i} of ${path}`;
        const fields = fieldsOf(line);
        if (fields.length !== names.length) {
          throw unusable(path, `Expected ${names.length} fields in ${place}, got ${fields.length}`);
        }
        const [id = "", ...texts] = fields;
        if (!/^[+-]?\d{1,18}$/.test(id)) {
          throw unusable(path, `Expected \`id\` of ${place} to be an integer, got \`${id}\``);
        }
        ids[i] = BigInt(id);
        const numbers = texts.map((text, at) => numberOf(text, names[at + 1] ?? "", place, path));
        vectors.set(numbers.slice(0, dim), i * dim);
        state?.set(numbers.slice(dim), i * width);
      }
      yield { ids, vectors, state };
    }
  }
}

function fieldsOf(line: string | undefined): string[] {
  const fields = splitLine(line ?? "", ",", true);
  return typeof fields === "string" ? [] : fields;
}

function numberOf(text: string, name: string, place: string, path: string): number {
  const value = decimal(text);
  if (value !== undefined) return Math.fround(value);
  throw unusable(path, `Expected \`${name}\` of ${place} to be a float32, got \`${text}\``);
}
