// The backing store of device memory, as a device sees it: evicted rows go down, and rows that a
// coming batch needs come up. A record is a row's weights as they are stored, then its optimizer's
// state (src/kernels/contract/records.ts).
//
// Requests are carried out in the order of posting: a row that went down in one request is found by
// the next. A shard is named by its index among all shards of the job. Implementations: tiers with
// a thread of their own, and tiers on the caller's thread (storage/tiers).

/** Records of one shard in a request. */
export interface MovingRecords {
  /** (n), relative to the shard's first row. */
  readonly rows: Int32Array;
  /** n records, one after the other. */
  readonly records: Uint8Array;
}

/** The answer for requested rows, in the order of the request. */
export interface FetchedRecords {
  /** (n): 1 where the row has a record; 0: it was never written. */
  readonly found: Uint8Array;
  /** n records; arbitrary bytes for a row without one. */
  readonly records: Uint8Array;
}

export interface BackingStore {
  /** Rows that batches requested so far; `hits` of them lay in host memory. They only grow. */
  readonly counts: { readonly asked: number; readonly hits: number };
  /** Begins a request. Waits until there is room for one. */
  open(): Promise<void>;
  /** Memory for `count` rows of a shard that go down; fill it before `post`. */
  down(shard: number, count: number): MovingRecords;
  /** Deletes the records of rows of a shard, ascending and at most `recordRowsMax`. */
  drop(shard: number, rows: Int32Array): void;
  /** Requests rows of a shard: distinct, in any order. */
  up(shard: number, rows: Int32Array): void;
  post(): void;
  /**
   * The answer to the oldest unanswered request for rows: one entry for each `up`, in their order.
   * Valid until `close`. `isOfBatch`: `counts` has these rows; those that a checkpoint or an
   * eviction reads are not in it.
   */
  answer(isOfBatch?: "isOfBatch"): Promise<readonly FetchedRecords[]>;
  /** Releases the memory of the answer. */
  close(): void;
  /** The shards with all rows of the checkpoint to go on from already in the backing store. */
  kept(): Promise<ReadonlySet<number>>;
  /** All records of a shard, ascending, in chunks. Each chunk is valid until the next. */
  scan(shard: number): AsyncIterable<MovingRecords>;
}
