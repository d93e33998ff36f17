// A transport that delivers only to live owners: everything received, including answers, passes
// through `enter` of its process or thread.

import type { Frame, Transport } from "../../src/wire/messages/transport.ts";

/** Runs a task in a process or thread: now, later, or never. */
export type Enter = (task: () => void) => void;

export function guardTransport(
  inner: Transport,
  owner: {
    readonly enter: Enter;
    isDead(): boolean;
    /** Wraps the receipt of each frame. */
    handle(frame: Frame, receive: () => void): void;
  },
): Transport {
  const settle = <Value>(promise: Promise<Value>): Promise<Value> =>
    new Promise((resolve, reject) => {
      promise.then(
        (value) => owner.enter(() => resolve(value)),
        (error: unknown) => owner.enter(() => reject(error)),
      );
    });
  return {
    address: inner.address,
    frameBytesMax: inner.frameBytesMax,
    bodyBytesMax: inner.bodyBytesMax,
    pending: () => inner.pending(),
    publish(subject, payload, options) {
      if (!owner.isDead()) inner.publish(subject, payload, options);
    },
    subscribe: (subject, receive, options) =>
      inner.subscribe(
        subject,
        (frame) => owner.enter(() => owner.handle(frame, () => receive(frame))),
        options,
      ),
    request: (subject, payload, options) => settle(inner.request(subject, payload, options)),
    flush: () => settle(inner.flush()),
    status: () => inner.status(),
    onStatus: (listener) => inner.onStatus((status) => owner.enter(() => listener(status))),
    close: () => inner.close(),
  };
}
