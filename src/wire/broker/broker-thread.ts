// The embedded broker on a thread of its own, so that a busy main thread or a training step cannot
// make it miss a ping. Frame faults (`intercept`) need a broker in the caller's thread, as
// functions do not cross threads. The caller restarts the thread when `exited` resolves without a
// `close`.

import { randomBytes } from "node:crypto";
import type { Worker } from "node:worker_threads";
import { type ErrorRecord, RemoteError, recordError } from "../../errors/errors.ts";
import { type Clock, realClock } from "../../ports/clock.ts";
import { entryFile } from "../../ports/entry-file.ts";
import { openThread } from "../../ports/launcher.ts";
import type { BrokerAuth, BrokerSettings } from "./broker.ts";

/** How a broker's thread ended. `error` is absent where the caller ended it. */
export interface BrokerExit {
  readonly error?: ErrorRecord;
}

/** A broker on a thread of its own. */
export interface BrokerThread extends AsyncDisposable {
  /** `nats://127.0.0.1:41234`, without the token. */
  readonly url: string;
  /** The port, so that a new broker can take this one's place where the clients find it. */
  readonly port: number;
  readonly auth: BrokerAuth;
  /** Resolves when the thread has ended, for any reason. Never rejects. */
  readonly exited: Promise<BrokerExit>;
  /** Ends the thread at once, in the middle of its work. */
  kill(): Promise<void>;
  /** Disconnects all clients and ends the thread. Safe to call twice. */
  close(): Promise<void>;
}

/** The thread's only report: its address, or why it cannot listen. */
export type BrokerNews =
  | { readonly kind: "listening"; readonly url: string; readonly port: number }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** How long `close` waits for the thread before it ends it. */
const closeMs = 1000;

/** Starts a broker on a new thread. Resolves once it listens. @throws RemoteError if it cannot */
export async function startBrokerThread(
  settings: BrokerSettings = {},
  { clock = realClock }: { readonly clock?: Clock } = {},
): Promise<BrokerThread> {
  const auth = settings.auth ?? { token: randomBytes(16).toString("hex") };
  const worker = openThread(entryFile("threads", "src/wire/broker/broker-main.js"), {
    name: "broker",
    workerData: { ...settings, auth },
  });
  const exited = exitOf(worker);
  const news = await Promise.race([newsOf(worker), exited]);
  if (!("kind" in news)) throw new RemoteError(news.error ?? recordError("The broker ended"));
  if (news.kind === "failed") {
    await worker.terminate();
    throw new RemoteError(news.error);
  }
  const close = async () => {
    worker.postMessage("close");
    const cancel = clock.after(closeMs, () => void worker.terminate());
    await exited;
    cancel();
  };
  return {
    url: news.url,
    port: news.port,
    auth,
    exited,
    kill: async () => {
      await worker.terminate();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function newsOf(worker: Worker): Promise<BrokerNews> {
  return new Promise((resolve) => worker.once("message", resolve));
}

function exitOf(worker: Worker): Promise<BrokerExit> {
  return new Promise((resolve) => {
    worker.once("error", (error) => resolve({ error: recordError(error) }));
    worker.once("exit", (code) => {
      const error = recordError(new Error(`The broker's thread exited with code ${code}`));
      resolve(code === 0 ? {} : { error });
    });
  });
}
