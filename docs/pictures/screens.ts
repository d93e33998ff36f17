// Makes the screenshots of docs/watching/dashboard.md: a cluster with a run on cached tables, a
// device that is made to throw, and each view in a real browser. `npm run draw -- screens` writes
// them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { browserFlags, browserPath } from "../../cli/support/browser.ts";
import { adam, Cluster, dlrm, rowWiseAdagrad, synthetic } from "../../index.ts";

const views = ["runs", "run", "tree", "incidents", "tiers", "plan", "hosts", "chaos"];
const size = { width: 1280, height: 800 };

const home = mkdtempSync(join(tmpdir(), "osiris-screens-"));
const cluster = await Cluster.start({
  devices: 2,
  faultsAllowed: true,
  dashboard: { allow: ["control", "faults"], token: "for-the-screenshots" },
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
  const run = await cluster.submit({
    name: "clicks",
    model: dlrm({ dense: 13, tables, bottom: [64, 16], top: [64, 1] }),
    data: {
      ...synthetic({ samples: 150_000, batchSize: 512, zipf: 1.2, epochs: 40 }),
      cache: join(home, "cache"),
    },
    optimizer: {
      dense: adam({
        learningRate: 2e-3,
        schedule: { kind: "cosine", warmUpSteps: 100, steps: 4000 },
      }),
      sparse: rowWiseAdagrad({ learningRate: 0.05 }),
    },
    evaluation: { everySteps: 50 },
    checkpoint: { everySteps: 100, directory: join(home, "checkpoints") },
    tiers: { hbmBytes: 2 ** 20, ddrBytes: 4 * 2 ** 20, directory: join(home, "tiers") },
  });
  await run.limitReaders({ samplesPerSecond: 20_000 });
  const page = await (await browser.newContext({ viewport: size })).newPage();
  await page.goto(cluster.dashboard?.url ?? "");
  await page.waitForSelector("tbody th a");
  for await (const event of run.events()) {
    if (event.type === "run.progress" && event.step >= 380) break;
  }
  await open(page, "chaos");
  await page.selectOption("form select", "device:1");
  await page.click("form button");
  await open(page, "incidents");
  await page.waitForSelector(".timeline .done");
  await page.waitForSelector(".mark.good");
  await open(page, "tree");
  await page.click('[data-actor="device:1"]');
  await page.waitForSelector('section[aria-label="Actor device:1"]');
  for (const view of views) {
    if (view !== "tree") await open(page, view);
    await page.waitForTimeout(1500); // What a view asks for has come.
    const path = `docs/pictures/dashboard-${view}.png`;
    await page.screenshot({ path });
    process.stdout.write(`${path}\n`);
    if (view === "run") await open(page, "tree");
    if (view !== "run") continue;
    await page.click('[data-actor="device:1"]');
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
