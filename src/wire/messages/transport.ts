// The interface of transports: frames on subjects, as in core NATS. Delivery is at most once: a
// frame may be lost, and a sender that needs an answer repeats its request. A payload that is
// larger than a frame travels in chunks, which its receivers put together (chunks.ts).
// Implementations: memory-transport.ts (simulated, virtual time, faults) and nats-transport.ts
// (embedded broker or a real nats-server), both within chunked-transport.ts.

/** A frame received on a subject. The receiver may keep `payload`. */
export interface Frame {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  /** The subject for the answer, if one is expected. */
  readonly reply?: string;
}

export interface PublishOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly reply?: string;
  /**
   * Whether the payload is lent instead of copied: the caller must not change it until it has
   * arrived or is obsolete.
   */
  readonly isLent?: boolean;
}

export interface SubscribeOptions {
  /** Each frame goes to one subscription of a queue. */
  readonly queue?: string;
  /** Called for each received frame that is corrupt, in addition to the error. */
  readonly onCorrupt?: () => void;
  /** Called for each received chunk that completes no payload. */
  readonly onChunk?: () => void;
}

export interface RequestOptions extends PublishOptions {
  readonly deadlineMs: number;
  /**
   * Takes the frames of the answer one by one; returns the answer once it is whole.
   * @default the first frame is the answer
   */
  readonly collect?: (frame: Frame) => Frame | undefined;
}

export interface Subscription {
  unsubscribe(): void;
}

/** State of the connection. `lost` is temporary: the client reconnects by itself. */
export type TransportStatus = "connected" | "lost" | "closed";

export interface Transport {
  /** Address of the broker, for people: `nats://127.0.0.1:41234`. */
  readonly address: string;
  /** Largest payload of one frame. */
  readonly frameBytesMax: number;
  /** Largest payload, in chunks. */
  readonly bodyBytesMax: number;
  /** Published bytes that the broker has not confirmed yet, and their limit. */
  pending(): { readonly bytes: number; readonly bytesMax: number };
  /** Sends a frame without waiting. @throws FrameTooLargeError */
  publish(subject: string, payload: Uint8Array, options?: PublishOptions): void;
  /** Calls `receive` for every frame that matches `subject` (`*` one token, `>` the rest). */
  subscribe(
    subject: string,
    receive: (frame: Frame) => void,
    options?: SubscribeOptions,
  ): Subscription;
  /**
   * Sends a request and resolves to one answer.
   * @throws RequestFailedError after the deadline, or if there is no subscriber; NotPermittedError
   * where the broker forbids the subject
   */
  request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Frame>;
  /** Resolves when the broker has received all earlier frames. */
  flush(): Promise<void>;
  /** The state of the connection. */
  status(): TransportStatus;
  /** Calls `tell` at every change of the connection. */
  onStatus(tell: (status: TransportStatus) => void): Subscription;
  /** Sends pending frames and ends. Safe to call twice. */
  close(): Promise<void>;
}

/** A connection that sends no payload larger than a frame. */
export type FrameTransport = Omit<Transport, "bodyBytesMax">;
