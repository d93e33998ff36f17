// The transport's contract: frames on subjects, as core NATS has them. At most once: a frame may be
// lost, and whoever needs an answer asks again. Implementations: memory-transport.ts (simulated,
// virtual time, faults) and nats-transport.ts (embedded broker or a real nats-server).

/** Bytes that arrived on a subject. The receiver may keep `payload`. */
export interface Frame {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  /** Where an answer is expected, if one is. */
  readonly reply?: string;
}

export interface PublishOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly reply?: string;
  /** The caller leaves `payload` as it is until it has arrived or does not matter: no copy. */
  readonly isLent?: boolean;
}

export interface SubscribeOptions {
  /** Of all subscriptions of a queue, one gets a frame. */
  readonly queue?: string;
  /** Called for what arrived and is no frame, besides telling it as an error. */
  readonly onCorrupt?: () => void;
}

export interface Subscription {
  unsubscribe(): void;
}

/** What happened to the connection. `lost` is not the end: the client reconnects by itself. */
export type TransportStatus = "connected" | "lost" | "closed";

export interface Transport {
  /** Where the broker is, for people: `nats://127.0.0.1:41234`. */
  readonly address: string;
  /** Largest payload that one frame carries. */
  readonly frameBytesMax: number;
  /** Bytes that were published and that the broker has not confirmed yet; and how many may be. */
  pending(): { readonly bytes: number; readonly bytesMax: number };
  /** Sends a frame and forgets it. @throws FrameTooLargeError */
  publish(subject: string, payload: Uint8Array, options?: PublishOptions): void;
  /** Calls `receive` for every frame on `subject` (`*` one token, `>` the rest). */
  subscribe(
    subject: string,
    receive: (frame: Frame) => void,
    options?: SubscribeOptions,
  ): Subscription;
  /**
   * One answer to one frame. @throws RequestFailedError after the deadline, or if nobody listens;
   * NotPermittedError where the broker forbids the question
   */
  request(
    subject: string,
    payload: Uint8Array,
    options: PublishOptions & { readonly deadlineMs: number },
  ): Promise<Frame>;
  /** Resolves when the broker has seen all that was published before. */
  flush(): Promise<void>;
  /** Called at every change of the connection. */
  onStatus(tell: (status: TransportStatus) => void): Subscription;
  /** Sends what is pending and ends. Safe to call twice. */
  close(): Promise<void>;
}
