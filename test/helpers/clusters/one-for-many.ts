// Something that several tests use one after another, because it takes long to start: a cluster,
// a browser. The first test that needs it starts it. It is closed when the last declared test of
// them has ended, so that a failure to close belongs to that test; where not all of them run, as
// with ava's `--match`, it is closed once no test has used it for a while.

import type { ExecutionContext } from "ava";
import { isMet, type Need, testIf } from "../needs.ts";

/** Where tests are left out: how long something unused stays open. */
const lingerMs = 3000;

export interface Shared<Thing> {
  /** Declares a serial test that uses it, and has `more` needs. */
  test(
    title: string,
    run: (t: ExecutionContext, thing: Thing) => unknown,
    ...more: readonly Need[]
  ): void;
}

/** Shares what `start` starts among the tests that are declared with it. */
export function shared<Thing extends AsyncDisposable>(
  start: () => Promise<Thing>,
  ...needs: readonly Need[]
): Shared<Thing> {
  let open: Promise<Thing> | undefined;
  let left = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = async (): Promise<void> => {
    const closing = open;
    open = undefined;
    await (await closing)?.[Symbol.asyncDispose]();
  };
  return {
    test(title, run, ...more) {
      if (more.every(isMet)) left++;
      testIf(...needs, ...more).serial(title, async (t) => {
        left--;
        clearTimeout(timer);
        t.teardown(async () => {
          if (left === 0) await close();
          else timer = setTimeout(() => void close(), lingerMs);
        });
        open ??= start();
        await run(t, await open);
      });
    },
  };
}
