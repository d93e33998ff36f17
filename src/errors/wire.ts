// Errors of the wire: frames, requests, and the connection to the broker.

import { TrainingError } from "./training-error.ts";

/** A frame exceeds the transport's limit. */
export class FrameTooLargeError extends TrainingError {
  readonly code = "FRAME_TOO_LARGE";
  readonly recovery = "stop";

  constructor(frameBytes: number, frameBytesMax: number) {
    super(`Expected a frame of at most ${frameBytesMax} bytes, got ${frameBytes}`);
  }
}

/** A frame does not decode to a known message. */
export class FrameCorruptError extends TrainingError {
  readonly code = "FRAME_CORRUPT";
  readonly recovery = "restore";

  constructor(subject: string, reason: string, options?: ErrorOptions) {
    super(`A frame on ${subject} is not a message: ${reason}`, options);
  }
}

/** A request received no response in time, or its subject has no subscribers. */
export class RequestFailedError extends TrainingError {
  readonly code = "REQUEST_FAILED";
  readonly recovery = "restore";

  constructor(subject: string, reason: string, options?: ErrorOptions) {
    super(`No answer on ${subject}: ${reason}`, options);
  }
}

/** The broker cannot be reached. */
export class TransportLostError extends TrainingError {
  readonly code = "TRANSPORT_LOST";
  readonly recovery = "restore";

  constructor(address: string, reason: string, options?: ErrorOptions) {
    super(`Cannot reach the broker at ${address}: ${reason}`, options);
  }
}

/** Too many bytes are in flight to the broker: the frame was dropped. */
export class TransportFullError extends TrainingError {
  readonly code = "TRANSPORT_FULL";
  readonly recovery = "restore";

  constructor(address: string, pendingBytes: number, pendingBytesMax: number) {
    super(
      `A frame to the broker at ${address} was dropped: ` +
        `${pendingBytes} of at most ${pendingBytesMax} bytes are on their way`,
    );
  }
}
