// How a manifest writes its parts: the files once, and a line for each part, so that the manifest
// of ten thousand tables in two parts each stays below 3 MB. Hashes are base64url.
//
//   "files": ["000000400-g000012/pack-d0-00000", "000000200-g000012/pack-d0-00000"]
//   "parts": ["table-00003 0 8192 5184 Xq83…", "table-00004 0 . 96 0b8d… 1 13376 5184 9fQ2…"]
//              part's name, then for the part and each part of its base, in their order:
//              index of the file, first byte, bytes, SHA-256; `.`: the byte after the part before
//              in that file

import { CheckpointCorruptError } from "../../../src/errors/errors.ts";
import { checkpointName, isPartName, parseCheckpointName } from "./store-paths.ts";

/** Bytes of a file, with their SHA-256 in hexadecimal. */
interface FileBytes {
  readonly file: string;
  readonly at: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** A checkpoint: its directory is that of a cut and a generation. */
interface Checkpoint {
  readonly cut: number;
  readonly generation: number;
}

/** A part, and the parts of earlier checkpoints that it is an increment on. */
interface Part extends FileBytes {
  readonly name: string;
  readonly base: readonly (Checkpoint & FileBytes)[];
}

/** Fields of a place in a line, and the digits of a hash in base64url. */
const placeFields = 4;
const hashDigits = 43;

/** Stands for the byte after the part before in the same file. */
const follows = ".";

/** The parts of a checkpoint as its manifest writes them. */
export function packParts(checkpoint: Checkpoint & { readonly parts: readonly Part[] }) {
  const files: string[] = [];
  const ends: number[] = [];
  const indices = new Map<string, number>();
  const placeOf = ({ cut, generation }: Checkpoint, { file, at, bytes, sha256 }: FileBytes) => {
    const key = `${cut} ${generation} ${file}`;
    let index = indices.get(key);
    if (index === undefined) {
      index = files.push(`${checkpointName(cut, generation)}/${file}`) - 1;
      indices.set(key, index);
    }
    const first = at === ends[index] ? follows : at;
    ends[index] = at + bytes;
    return ` ${index} ${first} ${bytes} ${Buffer.from(sha256, "hex").toString("base64url")}`;
  };
  const parts = checkpoint.parts.map((part) => {
    let line = part.name + placeOf(checkpoint, part);
    for (const one of part.base) line += placeOf(one, one);
    return line;
  });
  return { files, parts };
}

/** The parts that the manifest at `path` lists. @throws CheckpointCorruptError */
export function unpackParts(
  stored: Checkpoint & { readonly files: readonly string[]; readonly parts: readonly string[] },
  path: string,
) {
  const files = stored.files.map((name, i) => fileAt(name, `files.${i}`, path));
  const ends = files.map(() => -1);
  return stored.parts.map((line, i) => {
    const [name = "", ...fields] = line.split(" ");
    const wrong = (what: string) => new CheckpointCorruptError(path, `parts.${i}: ${what}`);
    if (!isPartName(name)) throw wrong("expected a plain lower-case file name");
    if (fields.length === 0 || fields.length % placeFields !== 0) throw wrong("it is cut short");
    const placeOf = (first: number) => {
      const index = wholeOf(fields[first]);
      const file = files[index];
      const at = fields[first + 1] === follows ? (ends[index] ?? -1) : wholeOf(fields[first + 1]);
      const bytes = wholeOf(fields[first + 2]);
      const hash = fields[first + 3] ?? "";
      const sha256 = Buffer.from(hash, "base64url").toString("hex");
      ends[index] = at + bytes;
      if (file && at >= 0 && bytes >= 0 && hash.length === hashDigits && sha256.length === 64) {
        return { cut: file.cut, generation: file.generation, file: file.file, at, bytes, sha256 };
      }
      const found = fields.slice(first, first + placeFields).join(" ");
      throw wrong(`expected a file, two counts and a hash, got ${found}`);
    };
    const own = placeOf(0);
    const base = [];
    for (let at = placeFields; at < fields.length; at += placeFields) base.push(placeOf(at));
    if (own.cut !== stored.cut || own.generation !== stored.generation) {
      throw wrong("its file is not in its checkpoint's directory");
    }
    const { file, at, bytes, sha256 } = own;
    return { name, file, at, bytes, sha256, base };
  });
}

function fileAt(name: string, field: string, path: string) {
  const [directory = "", file = "", ...more] = name.split("/");
  const checkpoint = parseCheckpointName(directory);
  if (checkpoint !== undefined && isPartName(file) && more.length === 0) {
    return { ...checkpoint, file };
  }
  throw new CheckpointCorruptError(path, `${field}: expected CHECKPOINT/FILE, got ${name}`);
}

/** A count in a line; -1 where it is none. */
function wholeOf(text: string | undefined): number {
  const value = /^\d{1,16}$/.test(text ?? "") ? Number(text) : -1;
  return Number.isSafeInteger(value) ? value : -1;
}
