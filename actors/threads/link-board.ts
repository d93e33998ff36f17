// Reports of a bridge's thread about its direct links: log lines, and one report to its host for
// all links.

import type { BridgeTraffic } from "../../src/exchange/bridge.ts";
import type { LinkNews } from "../../src/exchange/links/negotiation.ts";
import type { Log } from "../../src/ports/log.ts";
import type { LinkReport } from "../../src/wire/messages/fields.ts";

/** Most reasons in a report, and most strangers in the log of a generation. */
const reasonsMax = 8;
const strangersMax = 20;

export class LinkBoard {
  readonly #names: readonly string[];
  readonly #log: Log["write"];
  readonly #open = new Set<number>();
  readonly #reasons = new Map<number, string>();
  #refused = 0;
  #apart: LinkReport["apart"];
  #reported = "";
  readonly #losses: (() => void)[] = [];

  /** `hosts`: the hosts of the generation, by their index in the cluster. */
  constructor(hosts: readonly number[], log: Log["write"]) {
    this.#names = hosts.map((host) => `host:${host}`);
    this.#log = log;
  }

  take(news: LinkNews): void {
    switch (news.type) {
      case "open":
        this.#open.add(news.host);
        this.#reasons.delete(news.host);
        this.#log("debug", `the direct link to ${this.#names[news.host]} is open`);
        break;
      case "unusable": {
        const { host, way, reason } = news;
        const which = `the direct link ${way === "outgoing" ? "to" : "from"} ${this.#names[host]}`;
        const fields = { code: "LINK_UNUSABLE", reason };
        this.#losses.push(() => {
          this.#log("warn", `${which} cannot be used; frames travel over the broker`, fields);
        });
        if (way === "incoming") break; // The sender reports it.
        this.#open.delete(host);
        this.#reasons.set(host, reason);
        break;
      }
      case "refused": {
        const { address, reason } = news;
        const fields = { address, reason };
        if (++this.#refused <= strangersMax) this.#log("warn", "refused a direct link", fields);
        break;
      }
      case "apart": {
        const { host, aheadMs } = news;
        this.#apart = { host: this.#names[host] ?? "", seconds: aheadMs / 1000 };
        break;
      }
      default:
        news satisfies never;
    }
  }

  /**
   * The report, if it differs from the last one. Lost links are logged only now, not at once: links
   * also end with their generation, which is no fault.
   */
  report({ ways }: Pick<BridgeTraffic, "ways">): LinkReport | undefined {
    for (const write of this.#losses.splice(0)) write();
    const reasons = [...this.#reasons].slice(0, reasonsMax).map(([host, reason]) => {
      return { to: this.#names[host] ?? "", reason };
    });
    const direct = this.#open.size;
    const report = {
      ...{ direct, broker: this.#names.length - 1 - direct, reasons },
      ...{ refused: this.#refused, bytes: { ...ways }, apart: this.#apart },
    };
    const text = JSON.stringify(report);
    if (text === this.#reported) return undefined;
    this.#reported = text;
    return report;
  }
}
