// The position of an ingested directory: a file that records how far both streams were read and
// which files belong to the table. Files that it does not name do not count.
//
//   1  new files are written beside the old ones, under hidden names that readers ignore
//   2  the position is replaced atomically by one that names the new files
//   3  the former position's open end is removed, and the new files are renamed to their names
//
// P1: after a crash before 2, the old files are the table, and the next ingestion removes the new
// ones.
// P2: after a crash during 3, the next ingestion completes step 3, which is idempotent.

import { basename, dirname, join } from "node:path";
import { z } from "zod";
import {
  type Disk,
  IngestForeignError,
  InputUnusableError,
  isPathBelow,
  noFileName,
  onDisk,
  readWhole,
  replaceDurably,
  seal,
  temporarySuffix,
  unsealAs,
} from "../../../internal.ts";
import { openSuffix } from "../warehouse/parquet-writer.ts";
import type { Types } from "./feature-columns.ts";
import type { Place } from "./held.ts";
import type { settingsOf } from "./ingest-options.ts";
import type { JoinCounts } from "./join.ts";
import type { Quarantine } from "./quarantine.ts";

/** How far a stream was read. */
export interface StreamPosition {
  readonly stream: string;
  readonly created: string;
  /** Sequence of the last message taken, and the stream's time after it. */
  readonly sequence: number;
  readonly timeMs: number | null;
  /** The position from which the stream is replayed to rebuild the window. */
  readonly resume: Place;
}

/** A file of the table; `path` is relative to the directory. */
export interface IngestedFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
}

/** Counts of all messages by outcome. */
export interface IngestCounts extends JoinCounts {
  readonly featuresMessages: number;
  readonly eventsMessages: number;
  readonly badMessages: number;
  /** Feature values without a column. */
  readonly unknownValues: number;
}

/** The state of both streams at one point of the ingestion. */
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
  /** First sequences of both streams, from which the first ingestion began. */
  readonly begun: { readonly features: number; readonly events: number };
  /** Types of the columns; undefined: no file is finished. */
  readonly columns?: Types | undefined;
  /** The state at the end of the last finished file; undefined: no file is finished. */
  readonly finished?: IngestState | undefined;
  /** Number of finished parts, and the files of the last one. */
  readonly parts: number;
  readonly files: readonly IngestedFile[];
  /** The open end: rows after the last finished file, which the next ingestion rewrites. */
  readonly open?: { readonly state: IngestState; readonly files: readonly IngestedFile[] };
}

export const positionName = "_ingest.json";

const files = z.array(z.looseObject({ path: z.string().refine(isPathBelow, noFileName) }));
/** Checks the paths in a position, as they are joined to its directory. */
const placed = z.looseObject({ files, open: z.looseObject({ files }).optional() });

/** The hidden name of a file until the position names it. */
export function hiddenName(path: string): string {
  return join(dirname(path), `.${basename(path)}${temporarySuffix}`);
}

/**
 * Reads the position of a directory, completes its renames, and removes leftovers of a crash.
 * @throws IngestForeignError where the directory has files of another origin
 * @throws InputUnusableError where the position is damaged, or of another version
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
    const checked: unknown = unsealAs(placed, 1, bytes, path);
    position = checked as Position;
  } catch (cause) {
    if (cause instanceof InputUnusableError) throw cause;
    const message = `Cannot continue the ingestion in ${home}: its ${positionName} is damaged`;
    throw new InputUnusableError(path, message, { cause });
  }
  carryOut(disk, home, position, openFilesIn(disk, home)); // P2
  removeHidden(disk, home); // P1
  return position;
}

/**
 * Replaces position `before` by `position`, whose new files must be on disk under hidden names, and
 * renames them.
 */
export function commitPosition(
  disk: Disk,
  home: string,
  position: Position,
  before: Position,
): void {
  // A fixed order of fields, so that equal positions are equal texts.
  const { version, settings, begun, columns, finished, parts, files, open } = position;
  const { text } = seal({ version, settings, begun, columns, finished, parts, files, open });
  onDisk("write", home, () => replaceDurably(disk, join(home, positionName), Buffer.from(text)));
  carryOut(disk, home, position, before.open?.files.map(({ path }) => path) ?? []);
}

/**
 * Completes the renames of a position. P2. `ends`: files of open ends, removed unless the position
 * names them.
 */
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
      const [hidden, visible] = [join(home, hiddenName(path)), join(home, path)];
      if (!disk.exists(hidden)) continue;
      disk.rename(hidden, visible);
      touched.add(dirname(visible));
    }
    for (const directory of touched) disk.syncDirectory(directory);
  });
}

/** Paths of all open-end files, relative to the directory. */
function openFilesIn(disk: Disk, home: string, below = ""): string[] {
  return disk.list(join(home, below)).flatMap((name) => {
    if (isPartition(name)) return openFilesIn(disk, home, join(below, name));
    return name.endsWith(openSuffix) ? join(below, name) : [];
  });
}

/** Removes unfinished files of an interrupted ingestion. */
function removeHidden(disk: Disk, home: string): void {
  for (const name of disk.list(home)) {
    if (isPartition(name)) removeHidden(disk, join(home, name));
    else if (/^\.part-.*\.temp$/.test(name)) disk.remove(join(home, name));
  }
}

/** A file that cannot come from an interrupted first ingestion; undefined: none. */
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
