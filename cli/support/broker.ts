// Keeps a broker running in a process of its own: restarts it on the same port and with the same
// token whenever it dies, so that clients can reconnect.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { InputUnusableError } from "../../internal.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import type { BrokerMessage } from "./broker-process.ts";

/** A broker that is kept running. */
export interface KeptBroker extends AsyncDisposable {
  readonly url: string;
  /** The current process of the broker. */
  readonly pid: number | undefined;
}

interface KeeperOptions {
  readonly port: number;
  readonly token: string;
  /** Receives a line when the broker dies, and when it cannot be restarted. */
  readonly log: (line: string) => void;
}

const program = entryFile("processes", "cli/support/broker-process.js");
const restartMs = 200;
/** The longest wait for a started process to listen. */
const startMaxMs = 60_000;
/** Restarts that may fail in a row before the keeper gives up. */
const failuresMax = 20;

/** Starts the broker and keeps it running. @throws InputUnusableError where it cannot listen */
export async function keepBroker({ port, token, log }: KeeperOptions): Promise<KeptBroker> {
  let isClosed = false;
  let { child, message } = await start({ port, token });
  const settings = { port: message.port, token };

  async function keep(): Promise<void> {
    for (let failures = 0; failures < failuresMax; failures++) {
      await ended(child);
      if (isClosed) return;
      log("The broker's process has died; starting it again.");
      await new Promise((resume) => setTimeout(resume, restartMs));
      if (isClosed) return;
      try {
        ({ child, message } = await start(settings));
        failures = 0;
      } catch (error) {
        log(String(error));
      }
      if (isClosed) child.disconnect();
    }
    log("The broker cannot be started again; stop this cluster with Ctrl-C.");
  }

  const kept = keep();
  return {
    url: message.url,
    get pid() {
      return child.pid;
    },
    async [Symbol.asyncDispose]() {
      isClosed = true;
      if (child.connected) child.disconnect();
      await kept;
    },
  };
}

async function start({ port, token }: { port: number; token: string }) {
  const child = fork(program);
  child.send({ port, auth: { token } });
  const signal = AbortSignal.timeout(startMaxMs);
  const answers = ["message", "exit"].map((name) => once(child, name, { signal }));
  const [message] = (await Promise.race(answers).catch((error: Error) => {
    const silence = "its process did not answer for a minute";
    return [{ kind: "failed", message: signal.aborted ? silence : error.message }];
  })) as [BrokerMessage];
  if (message?.kind === "listening") return { child, message };
  child.kill("SIGKILL");
  const reason = message?.kind === "failed" ? message.message : "its process ended";
  throw new InputUnusableError(`127.0.0.1:${port}`, `Cannot start the broker: ${reason}`);
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}
