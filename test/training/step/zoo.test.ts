// Every architecture of the zoo against PyTorch: the golden's README derives the tolerances from
// the noise of rounding errors.

import test from "ava";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { readGolden } from "../../helpers/batches/golden.ts";
import { beginsLike, followCurve } from "../../helpers/devices/follow-golden.ts";
import { batchesOf, furthest, startGolden } from "../../helpers/devices/golden-devices.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const names = [
  "zoo/lr",
  "zoo/fm",
  "zoo/wide_and_deep",
  "zoo/deep_fm",
  "zoo/dcn_v2",
  "zoo/dcn_v2_parallel",
  "zoo/gdcn",
  "zoo/auto_int",
  "zoo/x_deep_fm",
  "zoo/mask_net",
  "zoo/final_mlp",
  "zoo/final_net",
  "zoo/wukong_attentive",
  "zoo/dlrm_batch_norm",
  "zoo/mmoe",
  "zoo/ple",
  "zoo/shared_bottom",
  "zoo/esmm",
  "zoo/dcn_v2_mse",
  "sequences/din",
  "sequences/din_softmax",
  "sequences/din_dice",
  "sequences/bst",
  "sequences/bst_target",
  "sequences/bst_concat",
  "clipped/deep_fm_clipped",
];

/**
 * On every change, the native kernels follow Adagrad, and the reference kernels give the gradients
 * of the first batch; `npm run test:all` follows every optimizer with both.
 */
const cases = [
  { devices: 1, kernels: () => createReference(), kinds: [] },
  { devices: 2, kernels: () => openKernels("auto"), kinds: ["adagrad"] },
];

for (const name of names) {
  const golden = readGolden(name);

  test(`the first batch has PyTorch's logits and gradients in the zoo: ${name}`, (t) => {
    return beginsLike(t, golden, {});
  });

  for (const { devices, kernels, kinds } of cases) {
    for (const optimizer of golden.optimizers) {
      const title = `${name}, ${optimizer.name} on ${devices} device(s)`;
      const needs = kinds.some((kind) => kind === optimizer.kind) ? [] : [testAll];
      testIf(...needs)(`the zoo follows PyTorch's curve and weights: ${title}`, async (t) => {
        const local = startGolden(golden, optimizer, devices, kernels, {});
        await followCurve(t, local, golden, optimizer);
        const [batch] = batchesOf(golden, "train", 1);
        if (batch === undefined) return t.fail("the golden has no batch");
        const off = furthest(await local.score(batch), golden.tensor(`${optimizer.name}/scores`));
        t.true(off <= 1e-4, `logits after training are off by ${off}`);
      });
    }
  }
}
