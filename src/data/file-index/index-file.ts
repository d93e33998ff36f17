// The index of one file of a streamed data set. It is made once, in one pass over the wanted
// columns; its name is a hash of the file's identity and the options. Hosts that share an object
// store but no directory exchange indexes through the store, so that only one host reads each file.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk, DiskFile } from "../../ports/disk.ts";
import type { ObjectStore } from "../../ports/object-store.ts";
import { fileSuffix, filesDirectory, freeName } from "../cache/cache-directory.ts";
import { blockSamples, type KeyForm, onDisk } from "../cache/cache-format.ts";
import { cacheKey, cacheShapeOf } from "../cache/cache-key.ts";
import { CacheWriter, type SampleTotals } from "../cache/cache-writer.ts";
import {
  fileIndexVersion,
  pieceNumbers,
  readFileIndex,
  writeFileIndex,
} from "../cache/file-index-format.ts";
import { openRows } from "../file-rows.ts";
import { appendFile, pieceNumberOf } from "../file-samples.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import type { FileRows } from "../source-rows.ts";
import { KeyCollector, type KeyColumn } from "../split-keys.ts";
import { type Damage, DamageCount } from "../tables/damage.ts";
import { BadLines, type BadLinesState } from "../text/faults.ts";
import { TextFacts, type TextFactsState } from "../text/text-facts.ts";
import { transformsFor } from "../transforms/compile.ts";
import type { FileClaims } from "./claims.ts";

/** The options of the data by which each file is read for its index. */
export interface IndexedData {
  readonly options: ResolvedTableOptions;
  readonly tables: readonly TableShape[];
  /** The column that splits the data. */
  readonly key?: KeyColumn | undefined;
  readonly disk: Disk;
  /** The store through which hosts exchange indexes; undefined: they do not. */
  readonly store?: ObjectStore | undefined;
  /** Hash of all options that affect the samples of a file. */
  readonly identity: string;
}

/** Adds the identity to the data, for which it reads the vocabularies. */
export function indexedData(data: Omit<IndexedData, "identity">): IndexedData {
  const { options, tables, key } = data;
  const own = { ...options, paths: [], damagedMax: Math.min(1, options.damagedMax) };
  const identity = cacheKey(own, tables, { version: fileIndexVersion, key }, []);
  return { ...data, identity };
}

/** A file of the data: its index among them, and its facts. */
export interface IndexedFile {
  readonly place: number;
  readonly facts: FileFacts;
  /** Form of the keys in earlier files, which this file's keys must then have, too. */
  readonly form?: KeyForm | undefined;
}

/** Facts about the samples of a file, as plain data. */
export interface FileSamples extends Omit<SampleTotals, "table"> {
  readonly about: TextFactsState;
  readonly bad: BadLinesState;
  readonly damage: readonly Damage[];
  /** Path and hash as in `OpenRows`; left out if the file was not opened. */
  readonly opened?: { readonly path: string; readonly sha256: string } | undefined;
  /** Form of its keys; undefined: it has none. */
  readonly keyForm?: KeyForm | undefined;
}

/** A file's index, with the name under which the index of all files refers to it. */
export interface MadeIndex {
  readonly name: string;
  /** (pieces, 4): as `FileIndex.pieces`. */
  readonly pieces: Float64Array;
  readonly samples: FileSamples;
  readonly keys: Float64Array;
}

/** Callbacks that report the progress of an index. */
interface IndexSigns {
  /** Receives the reason why a damaged index is made again. */
  readonly onDamage?: (reason: string) => void;
  /** Called after some rows. */
  readonly onRows?: () => void;
}

/** Whether a file has an index; it may be damaged. */
export function hasIndex(data: IndexedData, file: IndexedFile): boolean {
  return data.disk.exists(join(data.options.cache, filesDirectory, nameOf(data, file)));
}

/**
 * Reads the index of a file, and makes it if it does not exist or is damaged. @throws as
 * `IndexRun.write`
 */
export async function fileIndexOf(
  data: IndexedData,
  file: IndexedFile,
  claims: FileClaims,
  { onDamage, onRows }: IndexSigns = {},
): Promise<MadeIndex> {
  const name = nameOf(data, file);
  const path = join(data.options.cache, filesDirectory, name);
  const isFound = data.disk.exists(path) || (await isFetched(data, name, path));
  if (isFound) {
    try {
      return { name, ...readIndex(path, data.disk) };
    } catch (error) {
      if (!(error instanceof DataCacheDamagedError)) throw error;
      onDamage?.(`the index of ${file.facts.path}: ${error.reason}`);
    }
  }
  claims.countRead();
  await makeIndex(path, data, file, () => {
    claims.ring();
    onRows?.();
  });
  await offer(data, name, path);
  return { name, ...readIndex(path, data.disk) };
}

const keyOf = (name: string) => `${filesDirectory}/${name}`;

/** Copies an index from the store to `path`; false if the store does not have it. */
async function isFetched(
  { store, disk }: IndexedData,
  name: string,
  path: string,
): Promise<boolean> {
  const bytes = await store?.get(keyOf(name));
  if (bytes === undefined) return false;
  saveAt(path, disk, (file) => {
    onDisk("write", file.path, () => file.write(bytes, 0));
  });
  return true;
}

/** Puts an index into the store. Another host may write it too, with equal bytes. */
async function offer({ store, disk }: IndexedData, name: string, path: string): Promise<void> {
  if (store === undefined) return;
  const file = onDisk("open", path, () => disk.open(path, "read"));
  const bytes = new Uint8Array(file.size());
  try {
    onDisk("read", path, () => file.read(bytes, 0));
  } finally {
    file.close();
  }
  await store.put(keyOf(name), bytes);
}

function readIndex(path: string, disk: Disk): Omit<MadeIndex, "name"> {
  const { pieces, facts, keys } = readFileIndex(path, disk);
  return { pieces, keys, samples: facts as FileSamples };
}

/** The name of a file's index: a hash of everything that determines its content. */
export function nameOf(
  { options, identity }: IndexedData,
  { facts, place, form }: IndexedFile,
): string {
  // Sampling by line depends on the index of the file among the files of the data.
  const isDrawn = options.transforms?.some((one) => one.op === "sampling" && one.by === undefined);
  const { path, bytes, version } = facts;
  const parts = [identity, path, bytes, version, form ?? "", isDrawn === true ? place : ""];
  const hash = createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  return `${options.kind}-${hash.slice(0, 24)}${fileSuffix}`;
}

/** Reads a file, and writes its index. */
async function makeIndex(
  path: string,
  { options, tables, key, disk }: IndexedData,
  { place, facts, form }: IndexedFile,
  onRows: () => void,
): Promise<void> {
  const writer = new CacheWriter(undefined, cacheShapeOf(options, tables));
  const collector = key && new KeyCollector(key, form);
  const bad = new BadLines(options.quarantineMax);
  const damage = new DamageCount(options, bad);
  const about = new TextFacts("lines");
  const pieces: { readonly rowGroup: number; samples: number }[] = [];
  const begin = (rows: FileRows) => {
    const rowGroup = pieceNumberOf(rows);
    if (pieces.at(-1)?.rowGroup === rowGroup) return;
    writer.endBlock();
    pieces.push({ rowGroup, samples: 0 });
  };
  const transforms = transformsFor(options);
  const to = { sink: writer, sample: writer.newSample(), about, bad, collector, transforms, begin };
  const address = options.paths[place] ?? "";
  const file = await openRows(address, options, tables, { key, facts, damage });
  try {
    if (file !== undefined) {
      await appendFile(file, place, to, (_, samples) => {
        const piece = pieces.at(-1);
        if (piece !== undefined) piece.samples += samples;
        onRows();
        return false;
      });
    }
  } finally {
    await file?.close();
  }
  const keys = collector?.keys();
  const { table, ...totals } = writer.totals(keys);
  const samples: FileSamples = {
    ...totals,
    about: about.state(),
    bad: bad.state(),
    damage: damage.found,
    opened: file && { path: file.path, sha256: file.sha256() },
    keyForm: collector?.form,
  };
  const index = { pieces: piecesIn(pieces, table), table, facts: samples };
  const whole = { ...index, keys: keys?.values ?? new Float64Array(0) };
  saveAt(path, disk, (saved) => writeFileIndex(saved, whole));
}

/** (pieces, 4): row group, samples, words, words of the first block. */
function piecesIn(
  pieces: readonly { readonly rowGroup: number; readonly samples: number }[],
  table: Uint32Array,
): Float64Array {
  const out = new Float64Array(pieceNumbers * pieces.length);
  let block = 0;
  for (const [i, { rowGroup, samples }] of pieces.entries()) {
    const end = block + Math.ceil(samples / blockSamples);
    const head = block < end ? (table[2 * block] ?? 0) : 0;
    let words = 0;
    for (; block < end; block++) words += table[2 * block] ?? 0;
    out.set([rowGroup, samples, words, head], pieceNumbers * i);
  }
  return out;
}

function saveAt(path: string, disk: Disk, write: (file: DiskFile) => void): void {
  const building = freeName(path, disk);
  const file = onDisk("make", building, () => disk.open(building, "write"));
  try {
    write(file);
    onDisk("sync", building, () => file.sync());
  } catch (error) {
    file.close();
    disk.remove(building);
    throw error;
  }
  file.close();
  onDisk("rename", building, () => disk.rename(building, path));
}
