// Compares records with the samples that the row encoder makes of the same rows: they have the same
// words.

import assert from "node:assert/strict";
import type { ExecutionContext } from "ava";
import { BlockEncoder } from "../../../src/data/cache/block-encoder.ts";
import type { BlockShape } from "../../../src/data/cache/cache-format.ts";
import type { PlainRecords } from "../../../src/data/columnar/plain-records.ts";
import type { RowEncoder } from "../../../src/data/columnar/row-encoder.ts";
import { Sample } from "../../../src/data/sample.ts";
import { sameValues } from "../../helpers/same-values.ts";

/** Compares the records of a batch that the encoder accepts. Returns them, and the plain rows. */
export function compareRecords(
  t: ExecutionContext,
  encoder: RowEncoder,
  shape: BlockShape,
  rows: number,
): { readonly records: PlainRecords; readonly plain: number } {
  const records = encoder.records();
  assert(records !== undefined, "these columns have records");
  const sample = new Sample(shape);
  let plain = 0;
  for (let row = 0; row < rows; row++) {
    const fault = encoder.encode(sample, row);
    if (records.isPlain[row] !== 1) continue;
    plain++;
    assert(fault === undefined, `row ${row} is plain, and has the fault ${fault?.kind}`);
    const [ofSample, ofRecord] = [new BlockEncoder(shape), new BlockEncoder(shape)];
    ofSample.append(sample);
    ofRecord.appendRecords(records, row, 1);
    sameValues(t, ofRecord.rest(), ofSample.rest(), `row ${row}`);
  }
  return { records, plain };
}
