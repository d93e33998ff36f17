// Data preparation on all hosts but the first, which prepares a run's data: they help to index
// files, and make the caches that they do not see.
//
// Takes   host.index · host.cache, through host.ts
// Emits   host.preparing · host.cached; host.failed where the thread fails

import { fromCallback } from "xstate";
import { claimsMemory, orderOfHost } from "../../src/data/file-index/claims.ts";
import { recordError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { type MessageEvent, type Network, openMailbox, type RunScope } from "../runtime/mailbox.ts";
import { type DataPart, indexedPart } from "../threads/data/index-program.ts";
import type { CacheTask } from "../threads/data/own-caches.ts";
import { threadFile } from "../threads/thread-file.ts";
import {
  type CacheProgress,
  coordinator,
  helpersOf,
  memoryOf,
  preparingsOf,
} from "./data-preparation.ts";
import { lossOf } from "./thread-actor.ts";

export interface IndexingInput<Type extends "host.index" | "host.cache" = "host.index"> {
  readonly network: Network;
  readonly launcher: Launcher;
  /** The received request. */
  readonly question: MessageEvent<Type>;
  /** The job in the request, validated. */
  readonly job: JobSpec;
}

/** Indexes files of a part beside the host that prepares the data, until none is left. */
export const indexing = fromCallback<{ type: string }, IndexingInput>(({ input }) => {
  const { network, launcher, question, job } = input;
  const { part, share, hosts } = question.body;
  const files = indexedPart(job, part)?.paths.length ?? 0;
  const helpers = helpersOf(launcher, job, memoryOf(network), 1);
  const claims = claimsMemory(orderOfHost(files, share, hosts));
  if (files > 0) helpers.start({ part, claims, files });
  return () => helpers.kill();
});

export interface CachingInput extends IndexingInput<"host.cache"> {
  readonly host: number;
}

/** Makes the caches of a request that this host does not see; then raises host.forget. */
export const caching = fromCallback<{ type: string }, CachingInput>(({ input, sendBack }) => {
  const { network, launcher, host, question, job } = input;
  const { command, caches } = question.body;
  const mailbox = openMailbox(network, question, { role: "host", index: host });
  const helpers = helpersOf(launcher, job, memoryOf(network));
  const task: CacheTask = { program: "cache", job, caches };
  const thread = launcher.start<never, CacheProgress>(threadFile, task, "cache");
  thread.onReport((report) => {
    if (report.type === "indexing") helpers.start(report);
    else mailbox.send(coordinator, "host.preparing", { fraction: report.fraction });
  });
  let isStopped = false;
  void thread.ended.then((end) => {
    helpers.kill();
    if (isStopped) return;
    if (end.kind === "finished") mailbox.send(coordinator, "host.cached", { command, host });
    else {
      const actor = `host:${host}`;
      const error = recordError(lossOf(end, actor));
      const body = { host, actor, context: "host.cache", error, waits: [] };
      mailbox.send(coordinator, "host.failed", body);
    }
    sendBack({ type: "host.forget", id: cachingId(question) });
  });
  return () => {
    isStopped = true;
    helpers.kill();
    thread.kill();
  };
});

/** Id of the indexing of a request: a repeated request finds it running. */
export function indexingId(question: RunScope & { body: { part: DataPart } }): string {
  return `${preparingsOf(question)}${question.body.part}`;
}

/** Id of the making of the caches of a request: a repeated request finds it running. */
export function cachingId(question: RunScope & { body: { command: number } }): string {
  return `${preparingsOf(question)}cache:${question.body.command}`;
}
