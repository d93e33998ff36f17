// A resource that several tests use one after another because it is slow to start, like a cluster
// or a browser. The first test that needs it starts it. It is closed when the last declared test
// that uses it has ended, so that a failure to close belongs to that test; where some of the tests
// do not run, as with AVA's `--match`, it is closed after a while without use.

import type { ExecutionContext } from "ava";
import { isMet, type Need, testIf } from "../needs.ts";

/** How long an unused resource stays open if some tests are left out, in milliseconds. */
const lingerMs = 3000;

export interface Shared<Thing> {
  /** Declares a serial test that uses the resource, and has `more` needs. */
  test(
    title: string,
    run: (t: ExecutionContext, thing: Thing) => unknown,
    ...more: readonly Need[]
  ): void;
}

/** Shares the resource that `start` starts among the tests declared with it. */
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
