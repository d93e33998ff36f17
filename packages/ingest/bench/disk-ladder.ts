// The disk part of the bench (ladder.bench.ts): the time of a job's reads on the modelled disk. The
// reads are those that the Parquet reader plans, in the order of the file.

import { type Chunk, readFooter } from "../../../src/data/parquet/footer.ts";
import { columnNames, shapeOf } from "../../../src/data/parquet/shapes.ts";
import {
  type ByteStream,
  openRanges,
  openStreams,
  type RangeReader,
  type ReadCounts,
} from "../../../src/data/tables/byte-ranges.ts";
import { modelledDisk } from "./modelled-disk.ts";

/** How a job reads a file. */
export interface DiskStep {
  readonly path: string;
  /** The columns that are read. @default all */
  readonly columns?: readonly string[];
  /** Whether columns that are close together in the file are read together. */
  readonly isCoalesced: boolean;
}

/** The cost of reading. */
export interface DiskCost {
  /** Virtual seconds, including the reads of the footer. */
  readonly seconds: number;
  readonly seeks: number;
  /** Bytes of the job's columns, and bytes read, which include gaps between coalesced columns. */
  readonly wanted: number;
  readonly read: number;
}

/** Reads the columns of a file, row group by row group. */
export async function readOnDisk({ path, columns, isCoalesced }: DiskStep): Promise<DiskCost> {
  const disk = modelledDisk(await openRanges(path));
  try {
    const { schema, groups } = await readFooter(disk);
    const leaves = (columns ?? columnNames(schema)).flatMap((name) => {
      const shape = shapeOf(schema, name);
      return [shape?.leaf, shape?.weights].flatMap((leaf) => leaf?.path ?? []);
    });
    const counts: ReadCounts = { wanted: 0, read: 0, reads: 0 };
    for (const { chunks } of groups) {
      const wanted = leaves.flatMap((leaf) => chunks.get(leaf) ?? []);
      wanted.sort((a, b) => a.start - b.start);
      for (const stream of streamsOf(disk, wanted, isCoalesced, counts)) await drain(stream);
    }
    const { seconds, seeks } = disk;
    return { seconds, seeks, wanted: counts.wanted, read: counts.read };
  } finally {
    await disk.close();
  }
}

function streamsOf(
  disk: RangeReader,
  wanted: readonly Chunk[],
  isCoalesced: boolean,
  counts: ReadCounts,
): ByteStream[] {
  if (isCoalesced) return openStreams(disk, wanted, counts);
  return wanted.flatMap((chunk) => openStreams(disk, [chunk], counts));
}

async function drain(stream: ByteStream): Promise<void> {
  while (stream.left > 0) {
    await stream.peek(stream.left);
    stream.skip(stream.left);
  }
}
