// The backing store of device memory, as a device sees it. The device writes evicted rows to it
// (down), and reads rows that the next batches need (up). A record is a row's weights as they are
// stored, then its optimizer's state (src/kernels/contract/records.ts).
//
// Requests are executed in the order of posting: a row written by one request is found by the next.
// A shard is named by its index among all shards of the job. Implementations: tiers with a thread
// of their own, and tiers on the caller's thread (storage/tiers).

/** Records of one shard in a request. */
export interface MovingRecords {
  /** (n), relative to the shard's first row. */
  readonly rows: Int32Array;
  /** n records, one after the other. */
  readonly records: Uint8Array;
}

/** The response for requested rows, in the order of the request. */
export interface FetchedRecords {
  /** (n): 1 where the row has a record; 0: it was never written. */
  readonly found: Uint8Array;
  /** n records; arbitrary bytes for a row without one. */
  readonly records: Uint8Array;
}

export interface BackingStore {
  /** Rows that batches requested so far, and how many were in host memory (`hits`). Only grow. */
  readonly counts: { readonly requested: number; readonly hits: number };
  /** Begins a request. Waits until there is room for one. */
  open(): Promise<void>;
  /**
   * Adds a write of `count` rows of a shard. `fill` is called with memory for all of them or, piece
   * by piece, for some, and with the number of rows before the piece. Waits only where a piece does
   * not fit into the request's memory.
   */
  down(
    shard: number,
    count: number,
    fill: (piece: MovingRecords, first: number) => void,
  ): Promise<void>;
  /** Adds a deletion of the records of rows: ascending, at most `recordRowsMax`. */
  drop(shard: number, rows: Int32Array): void;
  /** Adds a read of rows of a shard: distinct, in any order. Waits as `down`. */
  up(shard: number, rows: Int32Array): Promise<void>;
  /** Submits the open request. */
  post(): void;
  /**
   * The response to the oldest unanswered request with reads: one entry for each `up`, in order.
   * Valid until `close`. `isOfBatch`: a batch reads the rows, so `counts` includes them; reads for
   * a checkpoint or an eviction are not counted.
   */
  answer(isOfBatch?: "isOfBatch"): Promise<readonly FetchedRecords[]>;
  /** Releases the memory of the response. */
  close(): void;
  /** Shards whose rows in the store are already as in the checkpoint that the run resumes from. */
  kept(): Promise<ReadonlySet<number>>;
  /** All records of a shard, ascending, in chunks. Each chunk is valid until the next. */
  scan(shard: number): AsyncIterable<MovingRecords>;
}
