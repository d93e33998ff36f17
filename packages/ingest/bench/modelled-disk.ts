// A disk in virtual time over real bytes: what a spinning disk of a warehouse takes for the reads
// of a file, which no page cache of this machine can show.

import type { RangeReader } from "../../../src/data/tables/byte-ranges.ts";

/** A seek and half a turn; and bytes a second while the head stays on its track. */
const seekSeconds = 8e-3;
const bytesPerSecond = 150e6;

export interface ModelledDisk extends RangeReader {
  /** Virtual seconds of all reads so far. */
  readonly seconds: number;
  readonly seeks: number;
}

/** The file on the disk: a read costs a seek unless it goes on where the last one ended. */
export function modelledDisk(file: RangeReader): ModelledDisk {
  let [seconds, seeks, at] = [0, 0, -1];
  return {
    path: file.path,
    size: file.size,
    get seconds() {
      return seconds;
    },
    get seeks() {
      return seeks;
    },
    read(start, end) {
      if (start !== at) {
        seconds += seekSeconds;
        seeks++;
      }
      seconds += (end - start) / bytesPerSecond;
      at = end;
      return file.read(start, end);
    },
    close: () => file.close(),
  };
}
