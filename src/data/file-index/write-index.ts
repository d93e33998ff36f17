// Writes the index of a streamed data set: has each file indexed, by this thread and by others, and
// puts together what is known of the files, in their order. Only then the index exists: a kill
// before loses the files that are being read, and no others.
//
//   files      │ a │ b │ c │ d │      claimed one by one, by all threads (claims.ts)
//   indexes    │ a │ b │ c │ d │      one for each, made once: kept for other data with that file
//   index      │ a+b+c+d       │      names of the files' indexes, splits, totals

import { join } from "node:path";
import type { DiskFile } from "../../ports/disk.ts";
import { filesDirectory } from "../cache/cache-directory.ts";
import { type CacheMeta, headerBytes, type KeyForm, onDisk } from "../cache/cache-format.ts";
import { writeFrame } from "../cache/cache-frame.ts";
import { cacheShapeOf } from "../cache/cache-key.ts";
import type { CacheProgress } from "../cache/cache-writer.ts";
import { openRows } from "../file-rows.ts";
import { appendFile, type RowsTo } from "../file-samples.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import { Sample } from "../sample.ts";
import { KeyCollector } from "../split-keys.ts";
import { DamageCount } from "../tables/damage.ts";
import { BadLines } from "../text/faults.ts";
import { TextFacts } from "../text/text-facts.ts";
import { transformsFor } from "../transforms/compile.ts";
import { claimsMemory, FileClaims, type WaitOn } from "./claims.ts";
import { fileIndexOf, type IndexedData, type MadeIndex } from "./index-file.ts";
import { IndexTotals } from "./index-totals.ts";

/** Further threads that index files. */
export interface IndexHelp {
  /** Starts them, with the memory of the claims. This thread has the number 1. */
  start(claims: SharedArrayBuffer, files: number): void;
  readonly waitOn: WaitOn;
}

/** An index that was written. */
export interface WrittenIndex {
  readonly meta: CacheMeta;
  readonly filesRead: number;
  readonly damage: string | undefined;
}

const noHelp: IndexHelp = { start() {}, waitOn() {} };

/**
 * Indexes the files that do not have an index yet, and writes the index of all to `file`. Returns
 * its description, the number of files that were read, and the reason why an index of a file was
 * made again.
 * @throws as `prepareCache`
 */
export async function writeIndex(
  file: DiskFile,
  data: IndexedData,
  facts: readonly FileFacts[],
  onProgress: (progress: CacheProgress) => void,
  help: IndexHelp = noHelp,
): Promise<WrittenIndex> {
  const { options, tables, key, disk } = data;
  const directory = join(options.cache, filesDirectory);
  onDisk("make", directory, () => disk.makeDirectory(directory));
  const claims = new FileClaims(claimsMemory(facts.length), 1);
  let damage: string | undefined;
  const make = (place: number, form?: KeyForm): Promise<MadeIndex> => {
    const own = facts[place];
    if (own === undefined) throw new RangeError(`There is no file ${place}`);
    const onDamage = (reason: string) => {
      damage ??= reason;
    };
    return fileIndexOf(data, { place, facts: own, form }, claims, onDamage);
  };
  help.start(claims.memory, facts.length);
  const progress = progressOf(facts, claims, onProgress);
  try {
    await indexOwn(claims, make, progress);
    const totals = new IndexTotals(options, tables);
    for (const place of facts.keys()) {
      await claims.settled(place, help.waitOn);
      const made = await make(place);
      const isOther = made.samples.keyForm !== undefined && totals.keyForm !== undefined;
      const form = isOther && made.samples.keyForm !== totals.keyForm ? totals.keyForm : undefined;
      totals.add(form === undefined ? made : await make(place, form));
      claims.done(place);
      progress();
    }
    onDisk("sync", directory, () => disk.syncDirectory(directory));
    const about = await firstValues(data, totals.keyForm);
    const { starts, keyValues, ...meta } = totals.finish(about, facts, key !== undefined);
    const table = new Uint32Array(starts.buffer, starts.byteOffset, 2 * starts.length);
    writeFrame(file, headerBytes, table, meta, keyValues);
    return { meta, filesRead: claims.filesRead, damage };
  } finally {
    claims.stop();
  }
}

/**
 * Indexes the files that this thread claims. An error waits for the files before: the first file
 * in order that cannot be indexed is the one to be named, whichever thread meets an error first.
 */
export async function indexOwn(
  claims: FileClaims,
  make: (place: number) => Promise<unknown>,
  onFile: () => void = () => {},
): Promise<void> {
  for (;;) {
    const place = claims.take();
    if (place === undefined) return;
    try {
      await make(place);
      claims.done(place);
    } catch {
      claims.stop(); // The writer of the index makes it again, in order, and reports the error.
      return;
    }
    onFile();
  }
}

/** Reports the share of the bytes whose files are done. */
function progressOf(
  facts: readonly FileFacts[],
  claims: FileClaims,
  onProgress: (progress: CacheProgress) => void,
): () => void {
  const total = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  return () => {
    const done = facts.reduce((sum, { bytes }, i) => sum + (claims.isDone(i) ? bytes : 0), 0);
    onProgress({ samples: 0, quarantined: 0, fraction: total === 0 ? 1 : done / total });
  };
}

/**
 * The facts that depend on the values of the first samples: reads the first files again, until
 * there are enough samples (columnar/value-watch.ts).
 */
async function firstValues(
  { options, tables, key }: IndexedData,
  form: KeyForm | undefined,
): Promise<TextFacts> {
  const about = new TextFacts("values");
  const bad = new BadLines(0);
  const damage = new DamageCount(options, bad);
  const sink = {
    samples: 0,
    append() {
      sink.samples++;
    },
    appendRecords(_records: unknown, _first: number, count: number) {
      sink.samples += count;
    },
  };
  const collector = key && new KeyCollector(key, form);
  const shape = cacheShapeOf(options, tables);
  const sample = new Sample(shape);
  const to: RowsTo = { sink, sample, about, bad, collector, transforms: transformsFor(options) };
  for (const [place, address] of options.paths.entries()) {
    const file = await openRows(address, options, tables, { key, damage });
    if (file === undefined) continue;
    try {
      await appendFile(file, place, to, () => !about.needsValues);
    } finally {
      await file.close();
    }
    if (!about.needsValues) break;
  }
  return about;
}
