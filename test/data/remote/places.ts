// The servers of remote data for tests: a web server or an object store. Both inject the same
// faults.

import type { ExecutionContext } from "ava";
import { realClock } from "../../../src/ports/clock.ts";
import { asks, startObjectStore } from "./object-store.ts";
import { startWebServer } from "./web-server.ts";

export const transports = ["http", "s3"] as const;
export type Transport = (typeof transports)[number];

/** Limits with which a reader gives up soon. */
export const quick = { attemptsMax: 3, deadlineMs: 20_000, backoffMs: 1, clock: realClock };

/** A server for files. */
export interface Place {
  /** Faults of the next responses, in order; then none. */
  readonly faults: ("none" | "503" | "cut" | "short" | "slow")[];
  /**
   * Uploads a file. Returns its address; on the web server, with a query that stands for a
   * signature.
   */
  put(name: string, bytes: Uint8Array): Promise<string>;
  /** The paths that name all uploaded files `directory/…`. */
  allOf(directory: string): string[];
}

/**
 * Starts a server that ends with the test. The test must be serial, as this sets the environment.
 */
export async function startPlace(t: ExecutionContext, transport: Transport): Promise<Place> {
  if (transport === "s3") {
    const store = await startObjectStore(t);
    asks(t, store);
    return {
      faults: store.faults,
      async put(name, bytes) {
        await store.put("clicks", name, bytes);
        return `s3://clicks/${name}`;
      },
      allOf: (directory) => [`s3://clicks/${directory}/`],
    };
  }
  const web = await startWebServer(t);
  const addresses: string[] = [];
  return {
    faults: web.faults as Place["faults"],
    async put(name, bytes) {
      const address = `${web.put(name, bytes)}?signature=secret`;
      if (!addresses.includes(address)) addresses.push(address);
      return address;
    },
    allOf: (directory) => addresses.filter((one) => one.startsWith(`${web.origin}/${directory}/`)),
  };
}
