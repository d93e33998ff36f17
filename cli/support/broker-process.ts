// The process of `osiris up`'s broker: listens until its parent is gone. A stalled step or a native
// crash of the cluster's process thus closes no other client's connection.

// Imported directly, as index.ts would load all of Osiris into this process.
import { type BrokerSettings, startBroker } from "../../src/wire/broker/broker.ts";

/** The one message of this process to its parent. */
export type BrokerMessage =
  | { readonly kind: "listening"; readonly url: string; readonly port: number }
  | { readonly kind: "failed"; readonly message: string };

function send(message: BrokerMessage): void {
  process.send?.(message);
}

// Ignores Ctrl-C, which reaches all processes of a terminal: the broker must outlive its clients.
process.on("SIGINT", () => {});

process.once("message", async (settings: BrokerSettings) => {
  try {
    const broker = await startBroker(settings);
    process.once("disconnect", () => {
      void broker.close();
    });
    send({ kind: "listening", url: broker.url, port: broker.port });
  } catch (error) {
    send({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
    process.disconnect();
  }
});
