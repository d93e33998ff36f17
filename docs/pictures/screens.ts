// Makes the screenshots of packages/dashboard/docs/dashboard.md: a cluster with two runs on cached
// tables, a device of the second that is made to throw, and each view in a real browser. `npm run
// draw -- screens` writes them. Both runs see each sample once and at full speed, so that the
// pictures show the curves of a healthy run.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { browserFlags, browserPath } from "../../cli/support/browser.ts";
import {
  adam,
  Cluster,
  dashboard,
  dlrm,
  type JobOptions,
  rowWiseAdagrad,
  synthetic,
} from "../../index.ts";

const views = ["runs", "run", "compare", "tree", "incidents", "tiers", "plan", "hosts", "chaos"];
const size = { width: 1280, height: 800 };
/** Views with many charts have more of the page in their pictures. */
const tall: Readonly<Record<string, number>> = { run: 1300, compare: 1000 };

const home = mkdtempSync(join(tmpdir(), "osiris-screens-"));
const cluster = await Cluster.start({
  devices: 2,
  faultsAllowed: true,
  dashboard: dashboard({ allow: ["control", "faults"], token: "for-the-screenshots" }),
});
const browser = await chromium.launch({
  executablePath: browserPath() ?? "",
  args: [...browserFlags],
});
try {
  const tables = ["user", "item", "shop", "city", "query", "device"].map((name, at) => ({
    ...{ name, rows: 20_000 * (at + 1), dim: 16 },
    ...(at < 2 ? { tier: "cached" as const } : {}),
  }));
  const jobOf = (name: string, learningRate: number): JobOptions => ({
    name,
    model: dlrm({ dense: 13, tables, bottom: [64, 16], top: [64, 1] }),
    data: {
      ...synthetic({ samples: 1_000_000, batchSize: 512, zipf: 1.2 }),
      cache: join(home, "cache"),
    },
    optimizer: {
      dense: adam({
        learningRate,
        schedule: { kind: "cosine", warmUpSteps: 100, steps: 2000 },
      }),
      sparse: rowWiseAdagrad({ learningRate: 0.05 }),
    },
    evaluation: { fraction: 0.02, everySteps: 100 },
    checkpoint: { everySteps: 200, directory: join(home, name) },
    tiers: { hbmBytes: 2 ** 20, ddrBytes: 4 * 2 ** 20, directory: join(home, `${name}-tiers`) },
  });
  await (await cluster.submit(jobOf("slow-rate", 2e-4))).result();
  const run = await cluster.submit(jobOf("clicks", 2e-3));
  const page = await (await browser.newContext({ viewport: size })).newPage();
  await page.goto(cluster.dashboard?.url ?? "");
  await page.waitForSelector("tbody th a");
  for await (const event of run.events()) {
    if (event.type === "run.progress" && event.step >= 780) break;
  }
  await open(page, "chaos");
  await page.selectOption("form select", "device:1");
  await page.click("form button");
  await open(page, "incidents");
  await page.waitForSelector(".timeline .done");
  await page.waitForSelector(".mark.good");
  for (const view of views) {
    await open(page, view);
    if (view === "tree") {
      await page.click('[data-actor="device:1"]');
      await page.waitForSelector('section[aria-label="Actor device:1"]');
    }
    await page.waitForTimeout(1500); // What a view asks for has come.
    const path = `docs/pictures/dashboard-${view}.png`;
    const height = tall[view] ?? size.height;
    await page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, ...size, height } });
    process.stdout.write(`${path}\n`);
  }
} finally {
  await browser.close();
  await cluster.close();
  rmSync(home, { recursive: true, force: true });
}

async function open(page: Page, view: string): Promise<void> {
  await page.click(`nav a[href^="#/${view}/"], nav a[href="#/${view}"]`);
  await page.waitForSelector("main h2");
}
