// Assigns the batches of a run to the threads of its trainers: batch n belongs to trainer n mod
// trainers, whose threads take its batches in turn. So every sample is trained once per epoch.

/** A thread among those of all trainers. */
export interface ThreadPlace {
  readonly trainer: number;
  readonly trainers: number;
  readonly thread: number;
  readonly threads: number;
}

/** The batches of a thread: `first`, and every `stride`-th after it. */
export interface ThreadBatches {
  readonly stride: number;
  /** The number of the thread among all threads, from 0: its first batch in a run. */
  readonly worker: number;
  /** Its first batch that is not before `step`. */
  from(step: number): number;
}

export function batchesOf({ trainer, trainers, thread, threads }: ThreadPlace): ThreadBatches {
  const stride = trainers * threads;
  const worker = trainer + trainers * thread;
  return {
    stride,
    worker,
    from: (step) => step + ((((worker - step) % stride) + stride) % stride),
  };
}
