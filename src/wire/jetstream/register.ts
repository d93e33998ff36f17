// A register: one value that several processes change by compare-and-set: a change succeeds only if
// no other change came in between. NATS has registers if it has JetStream (nats-register.ts).

/** A value, and the count of its changes. */
export interface Registered {
  readonly value: Uint8Array;
  readonly revision: number;
}

export interface Register {
  /** Undefined: the register never had a value, or forgot it. Rejects when disconnected. */
  read(): Promise<Registered | undefined>;
  /**
   * Sets the value if its revision is still `revision`; 0: if there is no value. Resolves to the
   * new revision, or to undefined where the revision is another. Rejects where the outcome is
   * unknown.
   */
  compareAndSet(value: Uint8Array, revision: number): Promise<number | undefined>;
  close(): Promise<void>;
}
