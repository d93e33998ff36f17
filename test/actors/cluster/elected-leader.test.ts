// A leader under a lease in a directory, in virtual time: which runs its successor finds.

import test from "ava";
import { ElectedLeader } from "../../../actors/cluster/elected-leader.ts";
import { directoryPlace } from "../../../actors/cluster/lease-place.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { decodeBody, encodeBody } from "../../../src/wire/messages/body.ts";
import { jobsSubject } from "../../../src/wire/messages/subjects.ts";
import { FileJournal } from "../../../storage/cluster/file-journal.ts";
import {
  createFakeLauncher,
  startMembership,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

const leaseMs = 1000;

test("a run that was accepted just after a slow renewal of the lease is in the journal", async (t) => {
  const disk = new SimulatedDisk();
  const { network, clock, pass } = startSimulatedNetwork({ disk });
  let [isSlow, lateMs] = [false, 0];
  const now = clock.now.bind(clock);
  clock.now = () => now() + lateMs;
  const open = disk.open.bind(disk);
  disk.open = (path, mode) => {
    if (isSlow && path.startsWith("/lease/terms")) lateMs = 0.9 * leaseMs;
    return open(path, mode);
  };
  const leader = new ElectedLeader({
    ...{ network, leaseMs, place: directoryPlace(disk, "/lease"), prefix: "r" },
    ...{ devices: 0, launcher: createFakeLauncher().launcher },
    membership: startMembership({ devices: 1 }),
    access: { roots: {}, tenants: {} },
    publish() {},
    onIncident: ({ reason }) => t.fail(reason.message),
    ...{ onStandby() {}, onLeading() {}, onLost: (error) => t.fail(String(error)) },
  });
  const submit = async () => {
    const job = { model: smallModel, data: smallData, checkpoint: { directory: "/run" } };
    const { payload, headers } = encodeBody({ job, key: "k" }, "application/json");
    const subject = jobsSubject(network.cluster, "submit");
    return decodeBody(
      await network.transport.request(subject, payload, { headers, deadlineMs: 100 }),
    );
  };
  await pass(leaseMs / 10);
  const first = submit().catch(() => "no answer");
  clock.advance(0); // The request arrives …
  isSlow = true;
  clock.advance(leaseMs / 5); // … the lease is renewed, slowly …
  isSlow = false;
  await pass(0); // … and the run is added.
  await pass(leaseMs / 5);
  t.is(await first, "no answer");
  const { run } = (await Promise.all([submit(), pass(0)]))[0] as { run: string };
  const { entries } = new FileJournal(disk, "/lease", 2).readFormer();
  t.true(entries.some((entry) => entry.kind === "run" && entry.run === run));
  await leader.stop();
});
