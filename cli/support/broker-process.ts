// The process of `osiris up`'s broker: listens until its parent is gone. Whatever happens to the
// cluster's process, a stalled step or a native crash, makes no other client lose its connection.

// Not from index.ts, which would load all of Osiris into this process.
import { type BrokerSettings, startBroker } from "../../src/wire/broker/broker.ts";

/** What this process tells its parent, once. */
export type BrokerNews =
  | { readonly kind: "listening"; readonly url: string; readonly port: number }
  | { readonly kind: "failed"; readonly message: string };

function tell(news: BrokerNews): void {
  process.send?.(news);
}

// Ctrl-C reaches every process of the terminal; the broker ends after its clients.
process.on("SIGINT", () => {});

process.once("message", async (settings: BrokerSettings) => {
  try {
    const broker = await startBroker(settings);
    process.once("disconnect", () => {
      void broker.close();
    });
    tell({ kind: "listening", url: broker.url, port: broker.port });
  } catch (error) {
    tell({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
    process.disconnect();
  }
});
