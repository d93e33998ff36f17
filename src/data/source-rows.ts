// The rows of a file in the one form from which samples are made: lines of text and batches of
// columnar files alike.

import type { Column, FieldColumn } from "./columnar/column.ts";
import type { FieldColumns } from "./columnar/named-columns.ts";
import type { BadPlace, LineFault } from "./text/faults.ts";

/** Consecutive rows of one file: a batch of a columnar file, or a chunk of lines. */
export interface SourceRows {
  readonly rows: number;
  /** Index of the first row in the file. */
  readonly firstRow: number;
  readonly columns: { get(name: string): Column | FieldColumn | undefined };
  /**
   * The parsed field of each dense and of each categorical feature; left out or undefined for a
   * feature that is read from the column of its name.
   */
  readonly dense?: readonly (FieldColumn | undefined)[] | undefined;
  readonly bags?: readonly (FieldColumn | undefined)[] | undefined;
  /** Why a row has no fields; undefined if it has. Left out: every row has. */
  faultOf?(row: number): LineFault | undefined;
}

/** A batch of a file, and how its rows are read. Valid until the next batch. */
export interface FileRows {
  readonly batch: SourceRows;
  /** The same object for all batches of a file. */
  readonly columns: FieldColumns;
  /** Column names, to which the field indices of `columns` refer. */
  readonly header: readonly string[];
  /** Whether a row of the batch is a sample, unless it is bad. */
  isWanted(row: number): boolean;
  /** Number of a row in messages, from 1. */
  lineOf(row: number): number;
  /** The row group or record batch, for messages. */
  readonly place: BadPlace;
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}
