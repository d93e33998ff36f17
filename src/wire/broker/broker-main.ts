// The entry of the broker's thread: it listens, reports its address, and ends on request.

import { parentPort, workerData } from "node:worker_threads";
import { recordError } from "../../errors/errors.ts";
import { startBroker } from "./broker.ts";
import type { BrokerNews } from "./broker-thread.ts";

function tell(news: BrokerNews): void {
  parentPort?.postMessage(news);
}

async function listen(): Promise<void> {
  try {
    const broker = await startBroker(workerData);
    parentPort?.once("message", () => {
      void broker.close().then(() => parentPort?.close());
    });
    tell({ kind: "listening", url: broker.url, port: broker.port });
  } catch (error) {
    tell({ kind: "failed", error: recordError(error) });
  }
}

void listen();
