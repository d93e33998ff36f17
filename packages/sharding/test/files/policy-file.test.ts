// Files of placement policies: they read back unchanged, and other files are refused.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { smallSubject } from "../../../../test/helpers/policies.ts";
import { sameValues } from "../../../../test/helpers/same-values.ts";
import { readPolicy, writePolicy } from "../../files/policy-file.ts";
import { trainDreamShard } from "../../policies/dreamshard/train-dreamshard.ts";

test("a policy reads back unchanged, and a file that is no policy is refused", async (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "policy.safetensors");
  const short = { turns: 1, plans: 2, costUpdates: 2, policyUpdates: 1, episodes: 2 };
  const policy = trainDreamShard(openKernels("auto"), smallSubject(1), short);
  const provenance = { source: "drawn by a test" };
  await writePolicy(path, policy, provenance);
  t.deepEqual(readPolicy(path), { policy, provenance });
  const bytes = readFileSync(path);
  await writePolicy(path, policy, provenance);
  sameValues(t, readFileSync(path), bytes);

  const refused = (message: RegExp) => {
    t.throws(() => readPolicy(path), { instanceOf: InputUnusableError, message });
  };
  await writePolicy(path, { ...policy, weights: policy.weights.slice(1) }, provenance);
  refused(/no float32 tensor `cost\.table\.0\.weight` of shape \(128,21\); `osiris plan --calib/);
  await writePolicy(path, { ...policy, standard: { mean: [1], deviation: [1] } }, provenance);
  refused(/no float32 tensor `standard\.mean` of shape \(21\)/);
  writeFileSync(
    path,
    bytes.toString("latin1").replace("placement policy", "misplaced policy"),
    "latin1",
  );
  refused(/its metadata lack `kind: osiris placement policy 1`, or a known method/);
  rmSync(path);
  refused(/Cannot read .*policy\.safetensors/);
});
