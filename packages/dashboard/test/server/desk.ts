// Shared by the browser tests of this folder: one browser, and one cluster with a run that lasts
// longer than the tests.

import type { Browser } from "playwright-core";
import type { Run } from "../../../../index.ts";
import { realBrowser, startBrowser } from "../../../../test/helpers/browsers.ts";
import { startTestCluster, type TestCluster } from "../../../../test/helpers/clusters/clusters.ts";
import { shared } from "../../../../test/helpers/clusters/one-for-many.ts";
import { dashboard } from "../../server/dashboard.ts";

export interface Scene {
  readonly place: TestCluster;
  readonly run: Run;
  readonly url: string;
}

export interface Desk extends AsyncDisposable {
  readonly browser: Browser;
  /** The shared cluster; the first call starts it. */
  scene(): Promise<Scene>;
}

export const withBrowser = shared(openDesk, realBrowser);

/** A name with HTML markup, which a page must show as text. */
export const hostile = "<img src=x onerror=alert(1)>";

async function openDesk(): Promise<Desk> {
  const browser = await startBrowser();
  let started: Promise<Scene> | undefined;
  return {
    browser,
    scene() {
      started ??= startScene();
      return started;
    },
    async [Symbol.asyncDispose]() {
      await browser.close();
      await (await started)?.place[Symbol.asyncDispose]();
    },
  };
}

/** Four devices: the watched run has two, so that another run can use the other two. */
async function startScene(): Promise<Scene> {
  const place = await startTestCluster(4, {
    dashboard: dashboard({ port: 0, allow: ["control", "faults"] }),
  });
  const job = place.job({
    ...{ name: "watched", devices: 2, stepDeadlineMs: 60_000 },
    data: { kind: "synthetic", samples: 4000, dense: 4, batchSize: 64, epochs: 5000 },
    model: {
      kind: "dlrm",
      dense: 4,
      tables: [hostile, "b"].map((name) => ({ name, rows: 200, dim: 8 })),
      bottom: [8, 8],
      top: [8, 1],
    },
    // No automatic checkpoint: a test that needs one requests it.
    checkpoint: { everySteps: 100_000 },
    evaluation: { everySteps: 10 },
  });
  const run = await place.cluster.submit(job);
  await run.limitReaders({ samplesPerSecond: 2000 }); // The browser needs a core too.
  return { place, run, url: place.cluster.dashboard?.url ?? "" };
}
