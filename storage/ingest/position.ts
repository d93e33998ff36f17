// How far a directory was ingested, in a file of its own: the position. What it names counts,
// whatever else is there.
//
//   1  the new files are written beside the old ones, under names that readers leave out
//   2  the position is put in the place of the one before, with the names of these files
//   3  the open end of the position before goes, and the new files get their names
//
// P1: before 2 the files before are the table, and what is new is removed by the next ingestion.
// P2: from 2 on the next ingestion does what is left of 3; each part of it may be done twice.

import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { IngestForeignError, InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { onDisk, readWhole, replaceDurably, temporarySuffix } from "../disk/durable-files.ts";
import { isPathBelow, noFileName } from "../disk/names.ts";
import { seal, unseal } from "../disk/sealed-json.ts";
import { openSuffix } from "../warehouse/parquet-writer.ts";
import type { Types } from "./feature-columns.ts";
import type { Place } from "./held.ts";
import type { settingsOf } from "./ingest-options.ts";
import type { JoinCounts } from "./join.ts";
import type { Quarantine } from "./quarantine.ts";

/** A stream, and how far it was read. */
export interface StreamPosition {
  readonly stream: string;
  readonly created: string;
  /** The last message that was taken, and the time of the stream then. */
  readonly sequence: number;
  readonly timeMs: number | null;
  /** Where the stream is read again from, for what lies in the window. */
  readonly resume: Place;
}

/** A file of the table: its path below the directory. */
export interface IngestedFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
}

/** Counts of all messages, and what became of them. */
export interface IngestCounts extends JoinCounts {
  readonly featuresMessages: number;
  readonly eventsMessages: number;
  readonly badMessages: number;
  /** Values of features that no column has. */
  readonly unknownValues: number;
}

/** Both streams at a place. */
export interface IngestState {
  readonly features: StreamPosition;
  readonly events: StreamPosition;
  readonly counts: IngestCounts;
  readonly quarantine: Quarantine;
  readonly unknownNames: readonly string[];
}

export interface Position {
  readonly version: 1;
  readonly settings: ReturnType<typeof settingsOf>;
  /** The first messages, where the first ingestion began. */
  readonly begun: { readonly features: number; readonly events: number };
  /** Undefined: no file is finished. */
  readonly columns?: Types | undefined;
  /** At the end of the last finished file; undefined: none is. */
  readonly finished?: IngestState | undefined;
  /** Finished files, and those of the last one. */
  readonly parts: number;
  readonly files: readonly IngestedFile[];
  /** Rows behind the last finished file, which the next ingestion writes again. */
  readonly open?: { readonly state: IngestState; readonly files: readonly IngestedFile[] };
}

export const positionName = "_ingest.json";

const files = z.array(z.looseObject({ path: z.string().refine(isPathBelow, noFileName) }));
/** The paths of a position, which become paths below its directory. */
const placed = z.looseObject({ files, open: z.looseObject({ files }).optional() });

/** The name of a file before the position names it. */
export function hiddenName(path: string): string {
  return join(dirname(path), `.${basename(path)}${temporarySuffix}`);
}

/**
 * The position of a directory, whose files have their names, and nothing else lies beside them.
 * @throws IngestForeignError where the directory has files of another origin
 * @throws InputUnusableError where the position is damaged
 */
export function openPosition(disk: Disk, home: string): Position | undefined {
  const path = join(home, positionName);
  if (!disk.exists(path)) {
    const other = visibleIn(disk, home);
    if (other !== undefined) {
      throw new IngestForeignError(home, `it has ${other}, and no ${positionName}`);
    }
    removeHidden(disk, home);
    return undefined;
  }
  const bytes = onDisk("read", path, () => readWhole(disk, path));
  let position: Position;
  try {
    position = unseal(bytes, path) as Position;
    placed.parse(position);
  } catch (cause) {
    const message = `Cannot go on in ${home}: its ${positionName} is damaged`;
    throw new InputUnusableError(path, message, { cause });
  }
  carryOut(disk, home, position, openFilesIn(disk, home)); // P2
  removeHidden(disk, home); // P1
  return position;
}

/**
 * Makes `position` that of the directory, in the place of `before`; its files lie there under
 * hidden names, on disk.
 */
export function commitPosition(
  disk: Disk,
  home: string,
  position: Position,
  before: Position,
): void {
  // In one order of names: the same position is the same text.
  const { version, settings, begun, columns, finished, parts, files, open } = position;
  const { text } = seal({ version, settings, begun, columns, finished, parts, files, open });
  onDisk("write", home, () => replaceDurably(disk, join(home, positionName), Buffer.from(text)));
  carryOut(disk, home, position, before.open?.files.map(({ path }) => path) ?? []);
}

/** P2. `ends`: files of open ends, which go unless the position has them. */
function carryOut(
  disk: Disk,
  home: string,
  { files, open }: Position,
  ends: readonly string[],
): void {
  onDisk("write", home, () => {
    const touched = new Set<string>();
    for (const path of ends) {
      if (open?.files.some((file) => file.path === path)) continue;
      disk.remove(join(home, path));
      touched.add(dirname(join(home, path)));
    }
    for (const { path } of [...files, ...(open?.files ?? [])]) {
      const [hidden, own] = [join(home, hiddenName(path)), join(home, path)];
      if (!disk.exists(hidden)) continue;
      disk.rename(hidden, own);
      touched.add(dirname(own));
    }
    for (const directory of touched) disk.syncDirectory(directory);
  });
}

/** The files of open ends, by their paths below the directory. */
function openFilesIn(disk: Disk, home: string, below = ""): string[] {
  return disk.list(join(home, below)).flatMap((name) => {
    if (isPartition(name)) return openFilesIn(disk, home, join(below, name));
    return name.endsWith(openSuffix) ? join(below, name) : [];
  });
}

/** Removes what an ingestion left that has ended in the midst of a file. */
function removeHidden(disk: Disk, home: string): void {
  for (const name of disk.list(home)) {
    if (isPartition(name)) removeHidden(disk, join(home, name));
    else if (/^\.part-.*\.temp$/.test(name)) disk.remove(join(home, name));
  }
}

/** A file that no ingestion leaves before its first position. */
function visibleIn(disk: Disk, home: string): string | undefined {
  for (const name of disk.list(home)) {
    if (name.startsWith(".") || name === `${positionName}${temporarySuffix}`) continue;
    const found = isPartition(name) ? visibleIn(disk, join(home, name)) : name;
    if (found !== undefined) return found;
  }
  return undefined;
}

function isPartition(name: string): boolean {
  return /^(date|hour)=/.test(name);
}
