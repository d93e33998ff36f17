// A disk in virtual time over real bytes: the time that a warehouse's spinning disk takes to read a
// file, which this machine's page cache would hide.

import type { RangeReader } from "../../../src/data/tables/byte-ranges.ts";

/** Time of a seek and half a rotation; and sequential bytes a second. */
const seekSeconds = 8e-3;
const bytesPerSecond = 150e6;

export interface ModelledDisk extends RangeReader {
  /** Virtual seconds of all reads so far. */
  readonly seconds: number;
  readonly seeks: number;
}

/** The file on the disk: a read costs a seek unless it begins where the last one ended. */
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
