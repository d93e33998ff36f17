import test from "ava";
import { openKernels } from "../../src/kernels/index.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { kernelSuite } from "./suite.ts";

kernelSuite("reference", () => openKernels("reference"));

test("float64 kernels keep digits that float32 would round away", (t) => {
  const kernels = createReference("float64");
  const [w, g] = [kernels.tensor([1]), kernels.tensor([1])];
  kernels.fill(w, 1);
  kernels.fill(g, 1);
  for (const learningRate of [1e-12, 1 - 2e-12]) {
    kernels.applyFlat(w, [], g, { kind: "sgd", learningRate, l2: 0, decay: 0 });
  }
  const [left] = kernels.read(w);
  t.true(left !== undefined && left > 0.5e-12 && left < 2e-12, `${left}`);
});
