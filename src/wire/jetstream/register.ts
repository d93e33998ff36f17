// A register: one value that several processes change, each only if nobody else has meanwhile
// (compare-and-set). NATS has them where it has JetStream (nats-register.ts).

/** A value, and the count of its changes. */
export interface Registered {
  readonly value: Uint8Array;
  readonly revision: number;
}

export interface Register {
  /** Undefined: it never had a value, or has forgotten it. Rejects where it is cut off. */
  read(): Promise<Registered | undefined>;
  /**
   * Sets the value if its revision is still `revision`; 0: if there is none. Resolves to the new
   * revision, or to undefined where it is another. Rejects where it is not known.
   */
  compareAndSet(value: Uint8Array, revision: number): Promise<number | undefined>;
  close(): Promise<void>;
}
