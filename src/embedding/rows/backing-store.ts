// What lies below device memory, as a device sees it: rows go down when they have to make room, and
// come up when a batch is about to need them. A record is a row's weights as they are stored, then
// its optimizer's state (src/kernels/contract/records.ts).
//
// Requests are carried out in the order in which they were posted: a row that went down in one is
// found by the next. A shard is named by its place among all of the job. Implementations: tiers
// that have a thread of their own, and tiers on this one (storage/tiers).

/** Records of one shard on their way. */
export interface MovingRecords {
  /** (n), counted from the first of the shard. */
  readonly rows: Int32Array;
  /** n records, one after the other. */
  readonly records: Uint8Array;
}

/** What came for rows that were asked for, in the order in which they were. */
export interface FoundRecords {
  /** (n): 1 where the row has a record; 0: it was never written. */
  readonly found: Uint8Array;
  /** n records; of a row that has none, any bytes. */
  readonly records: Uint8Array;
}

export interface RowsBelow {
  /** Rows that were asked for, and those of them that lay in host memory. They only grow. */
  readonly counts: { readonly asked: number; readonly hits: number };
  /** Begins a request, once there is room for one. */
  open(): Promise<void>;
  /** Room for `count` rows of a shard that go down; to be filled before `post`. */
  down(shard: number, count: number): MovingRecords;
  /** Rows of a shard, ascending and at most `recordRowsMax`, have no record any more. */
  drop(shard: number, rows: Int32Array): void;
  /** Asks for rows of a shard: distinct, in any order. */
  up(shard: number, rows: Int32Array): void;
  post(): void;
  /**
   * What came for the oldest request that asked for rows and was not answered yet: one for each
   * `up`, in their order. Valid until `close`.
   */
  answer(): Promise<readonly FoundRecords[]>;
  /** Gives the memory of the answer back. */
  close(): void;
  /** The shards of which all is there already that the checkpoint to go on from has. */
  kept(): Promise<ReadonlySet<number>>;
  /** All records of a shard, ascending, in chunks; each is valid until the next. */
  scan(shard: number): AsyncIterable<MovingRecords>;
}
