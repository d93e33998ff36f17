// Writes the index of a streamed data set: lets this thread, other threads and other hosts index
// each file, and combines the indexes in the order of the files. The index exists only at the end:
// after a crash, only files that were being read must be read again.
//
//   files      │ a │ b │ c │ d │      claimed one by one, by all threads (claims.ts)
//   indexes    │ a │ b │ c │ d │      one for each, made once: kept for other data with that file
//   index      │ a+b+c+d       │      names of the files' indexes, splits, totals

import { join } from "node:path";
import type { DiskFile } from "../../ports/disk.ts";
import type { ObjectStore } from "../../ports/object-store.ts";
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
import { claimsMemory, FileClaims, orderOfHost, type WaitOn } from "./claims.ts";
import {
  fileIndexOf,
  hasIndex,
  type IndexedData,
  type IndexedFile,
  type MadeIndex,
} from "./index-file.ts";
import { IndexTotals } from "./index-totals.ts";

/** Other threads and hosts that help to index files. */
export interface IndexHelp {
  /** Starts the threads, which share the memory of claims. This thread has the number 1. */
  start(claims: SharedArrayBuffer, files: number): void;
  /** Number of hosts that index the files, including this one. @default 1 */
  readonly hosts?: number | undefined;
  /** Store through which hosts exchange indexes: see `IndexedData`. */
  readonly store?: ObjectStore | undefined;
  readonly waitOn: WaitOn;
}

export interface WrittenIndex {
  readonly meta: CacheMeta;
  readonly filesRead: number;
  readonly damage: string | undefined;
}

const noHelp: IndexHelp = { start() {}, waitOn() {} };

/** The indexing of the files of a data set. The caller stops it. */
export class IndexRun {
  readonly data: IndexedData;
  readonly facts: readonly FileFacts[];
  readonly #help: IndexHelp;
  readonly #claims: FileClaims;
  readonly #directory: string;
  #damage: string | undefined;
  /** Called repeatedly while this thread reads a file. */
  onSign: () => void = () => {};

  /** `order`: the order of claims. @default this host's share first */
  constructor(
    data: IndexedData,
    facts: readonly FileFacts[],
    help: IndexHelp = noHelp,
    order: ArrayLike<number> = orderOfHost(facts.length, 0, help.hosts ?? 1),
  ) {
    this.data = data;
    this.facts = facts;
    this.#help = help;
    this.#directory = join(data.options.cache, filesDirectory);
    onDisk("make", this.#directory, () => data.disk.makeDirectory(this.#directory));
    this.#claims = new FileClaims(claimsMemory(order), 1);
    help.start(this.#claims.memory, facts.length);
  }

  /** Whether the index of a file exists, by whichever thread or host. */
  isThere(place: number): boolean {
    return this.#claims.isDone(place) || hasIndex(this.data, this.#fileAt(place));
  }

  /** Indexes files until `isEnough` returns true; it is called after each ring of a thread. */
  async until(isEnough: () => boolean): Promise<void> {
    for (;;) {
      const { rung } = this.#claims;
      if (isEnough()) return;
      const place = this.#claims.take();
      if (place !== undefined) {
        if (!this.isThere(place)) await this.make(place);
        this.#claims.done(place);
      } else if (!(await this.#claims.rings(rung, this.#help.waitOn))) return;
    }
  }

  /** Reads or makes the index of a file. `form`: see `IndexedFile`. @throws as `fileIndexOf` */
  make(place: number, form?: KeyForm): Promise<MadeIndex> {
    return fileIndexOf(this.data, { ...this.#fileAt(place), form }, this.#claims, {
      onDamage: (reason) => {
        this.#damage ??= reason;
      },
      onRows: () => this.onSign(),
    });
  }

  /**
   * Indexes the files that do not have an index yet, and writes the index of all to `file`. Returns
   * its description, the number of files that were read, and the reason why an index of a file was
   * made again. `early`: the early index with which a run has begun.
   * @throws as `prepareCache`
   */
  async write(
    file: DiskFile,
    onProgress: (progress: CacheProgress) => void,
    early?: CacheMeta,
  ): Promise<WrittenIndex> {
    const { data, facts } = this;
    const { options, tables, key, disk } = data;
    const claims = this.#claims;
    const progress = progressOf(facts, claims, onProgress);
    const make = async (place: number) => {
      if (!this.isThere(place)) await this.make(place);
    };
    await indexOwn(claims, make, progress);
    const totals = new IndexTotals(options, tables);
    for (const place of facts.keys()) {
      await claims.settled(place, this.#help.waitOn);
      const made = await this.make(place);
      const isOther = made.samples.keyForm !== undefined && totals.keyForm !== undefined;
      const form = isOther && made.samples.keyForm !== totals.keyForm ? totals.keyForm : undefined;
      totals.add(form === undefined ? made : await this.make(place, form));
      claims.done(place);
      progress();
    }
    onDisk("sync", this.#directory, () => disk.syncDirectory(this.#directory));
    const about = await firstValues(data, totals.keyForm);
    const { starts, keyValues, ...found } = totals.finish(about, facts, key !== undefined);
    const meta = { ...found, ...(early && { earlyDigest: early.digest }) };
    const table = new Uint32Array(starts.buffer, starts.byteOffset, 2 * starts.length);
    writeFrame(file, headerBytes, table, meta, keyValues);
    return { meta, filesRead: claims.filesRead, damage: this.#damage };
  }

  /** Makes all threads stop after their present files. */
  stop(): void {
    this.#claims.stop();
  }

  #fileAt(place: number): IndexedFile {
    const facts = this.facts[place];
    if (facts === undefined) throw new RangeError(`There is no file ${place}`);
    return { place, facts };
  }
}

/**
 * Indexes the files that this thread claims. An error stops all threads, and is reported later, so
 * that the message names the first bad file in order, not the file that failed first.
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
      claims.stop(); // The writer repeats it, in order, and reports the error.
      return;
    }
    onFile();
  }
}

/** Most reports of progress, approximately: each takes time in proportion to the files. */
const reportsMax = 1024;

/** Returns a function that reports the share of bytes in files that are done. */
function progressOf(
  facts: readonly FileFacts[],
  claims: FileClaims,
  onProgress: (progress: CacheProgress) => void,
): () => void {
  const total = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const every = Math.ceil(facts.length / reportsMax);
  let calls = 0;
  return () => {
    if (calls++ % every !== 0) return;
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
